"""Made-up checkouts in the shape of the releases' judge scripts: their files, functions, names and ways to build a text,
with words of our own that mean nothing. None of it is ever run.
"""

from __future__ import annotations

from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"

# MultiBanana: three texts from one function, the second with the instruction; API judges count from 1, Qwen from 0.
BANANA_A = "  Plip is a plop. \nPictures of plop:"
BANANA_B = "Plopping: {instruction}\nPlopped:"
BANANA_C = '\nGrade the plop {as it is}.\n"Plop": <1 to 10>.\n'

_BANANA = '''import os


IMAGE_EXTENSIONS = [".jpg", ".jpeg", ".png"]
client = make_client(os.environ["KEY"])


def create_evaluation_prompts(instruction):
    prompt_a = f"""{a}"""

    prompt_b = f"""{b}"""

    prompt_c = """{c}"""

    return prompt_a, prompt_b, prompt_c


def find_reference_images(directory, number):
    ref_images = []
    i = {first}
    while True:
        found = look(directory, number, i)
        if not found:
            break
        i += 1
    return sorted(ref_images)


def judge_image_with_gpt(directory, generated_image_path, number):
    prompt_a, prompt_b, prompt_c = create_evaluation_prompts("x")
    messages = [{"role": "user", "content": [{"type": "text", "text": prompt_a}]}]
    return client.chat.completions.create(model="m", messages=messages, max_completion_tokens={limit})
'''

_BANANA_QWEN = """import torch

from judge import create_evaluation_prompts


class Model:
    @torch.no_grad()
    def inference(self, messages):
        return self.model.generate(**messages, max_new_tokens={limit})


def find_reference_images(directory, number):
    i = {first}
    while True:
        i += 1
"""


def multibanana_code(root: Path, *, first: int = 1, limit: int = 8192) -> Path:
    """judge.py and qwenvl_judge.py."""
    root.mkdir(parents=True, exist_ok=True)
    values = {"a": BANANA_A, "b": BANANA_B, "c": BANANA_C, "first": str(first), "limit": str(limit)}
    (root / "judge.py").write_text(_put(_BANANA, values), encoding="utf-8")
    qwen = {"first": "0", "limit": "1024"}
    (root / "qwenvl_judge.py").write_text(_put(_BANANA_QWEN, qwen), encoding="utf-8")
    return root


# CREval: a template in a file, and literals inside one method: the system message, a lead-in, the lay-out of a question.
CREVAL_TEMPLATE = 'PLIM = """\n Look at A and B.\n{Questions}\nSay it {like: this}.\n"""\n'
CREVAL_SYSTEM = "A plim for plams. "
CREVAL_LEAD = "Plim these plams:\n\n"

_CREVAL = """from openai import OpenAI


class ImageEvaluator:
    def __init__(self, api_key, base_url, prompt_path):
        self.client = OpenAI(api_key=api_key, base_url=base_url)

    def evaluate_pair(self, root_path_a, root_path_b, json_file, output_file):
        detailed_result = {"filename": json_file, "questions": []}
        questions = load(json_file)
        questions_text = "{lead}"
        for q in questions:
            questions_text += f"{q['question_id']}: {q['question']}\\n"
            questions_text += "Choices: " + ", ".join(q['choices']) + "\\n\\n"

        final_prompt = self.single_prompt.replace("{Questions}", questions_text)
        try:
            response = self.client.chat.completions.create(
                model="gpt-4o",
                messages=[
                    {"role": "system", "content": [{"type": "text", "text": "{system}"}]},
                    {"role": "user", "content": [{"type": "text", "text": final_prompt}]},
                ],
                max_tokens=2000,
            )
        except Exception as e:
            return detailed_result
"""


def creval_code(root: Path) -> Path:
    """code/answer_with_gpt4o.py and the template that it reads."""
    (root / "code/prompt_templete").mkdir(parents=True, exist_ok=True)
    (root / "code/prompt_templete/answer.txt").write_text(CREVAL_TEMPLATE, encoding="utf-8")
    values = {"lead": CREVAL_LEAD.replace("\n", "\\n"), "system": CREVAL_SYSTEM}
    (root / "code/answer_with_gpt4o.py").write_text(_put(_CREVAL, values), encoding="utf-8")
    return root


# ICE-Bench: one method with four branches, told apart by the pictures that there are.
ICE_TEXTS = {
    "mask_reference": "Vier 图 [SOURCE] [REF]: '{instruction}'. 1? ",
    "reference": "Drei 图 [REF]: '{instruction}'. 1?",
    "mask": " Drei 图 mit Rand: '{instruction}'. 1?",
    "plain": "Zwei 图: '{instruction}'. 1 {oder} 0?",
}

_ICE = """import torch


class VllmQA:
    def __init__(self, model_path, device="cuda"):
        self.model = load(model_path)

    @torch.no_grad()
    def __call__(self, img=None, src_img=None, src_mask=None, ref_img=None, instruction=None, **kwargs):
        if src_mask is not None and ref_img is not None:
            text = f"{mask_reference}"
            messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        elif ref_img is not None:
            text = f"{reference}"
            messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        elif src_mask is not None:
            text = f"{mask}"
            messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        else:
            text = f"{plain}"
            messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
        input_text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return self.model.generate(input_text, max_new_tokens=512)
"""


def icebench_code(root: Path) -> Path:
    """evaluators/vllm.py."""
    (root / "evaluators").mkdir(parents=True, exist_ok=True)
    # Braces that stand for themselves are doubled in an f-string.
    texts = {name: text.replace("{oder}", "{{oder}}") for name, text in ICE_TEXTS.items()}
    (root / "evaluators/vllm.py").write_text(_put(_ICE, texts), encoding="utf-8")
    return root


def committed(root: Path, commit: str = COMMIT) -> Path:
    """What git keeps of a checkout on a branch, and nothing more."""
    (root / ".git/refs/heads").mkdir(parents=True, exist_ok=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/refs/heads/main").write_text(f"{commit}\n")
    return root


def _put(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", value)
    return template
