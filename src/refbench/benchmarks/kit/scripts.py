"""Texts and numbers of a released Python script, read from its syntax tree. The script is never run.

A text is what the script would build, with a place in braces wherever it puts a value of its own.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from refbench.record import RefBenchError
from refbench.text.files import ARCHIVES, file_bytes, is_file


class Hole(NamedTuple):
    """Where a script puts a value into a text: the expression, as Python writes it."""

    expression: str


Pieces: TypeAlias = list[str | Hole]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | Function
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_DEPTH = 200
"""Statements and expressions inside each other: what is below is walked by functions that call themselves."""
_STRIPS = ("strip", "lstrip", "rstrip")


def released_file(checkout: Path, name: str) -> Path:
    """A file of a checkout by its path from the root; an error says where it is instead, or what the folder is."""
    path = checkout / name
    if is_file(path):
        return path
    wanted = f"official wording is read from {name} of the authors' code"
    if is_file(checkout):
        what = "an archive: unpack it" if checkout.suffix in ARCHIVES else "a file: name the folder of the checkout"
        raise RefBenchError(f"--prompts official:{checkout}: {wanted}, and this is {what}")
    if not checkout.is_dir():
        raise RefBenchError(f"--prompts official:{checkout}: {wanted}, and there is no such folder")
    around = [*checkout.absolute().parents[:_NEAR], *sorted(inside for inside in checkout.iterdir() if inside.is_dir())]
    near = next((f": did you mean official:{folder}?" for folder in around if is_file(folder / name)), "")
    raise RefBenchError(f"{path} is not there, and {wanted}{near or ': name the folder of its checkout'}")


_NEAR = 3
"""How many folders further up a checkout is looked for; further down, one."""


class Script:
    """A Python file of a checkout. What is not where it is looked for is an error that names file and finding."""

    def __init__(self, checkout: Path, name: str) -> None:
        self.path = released_file(checkout, name)
        source = file_bytes(self.path)
        try:
            self._tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # what parsers do with hostile files
            raise RefBenchError(f"{self.path} is not Python that can be read ({error}): clone it again") from error
        self._outer: dict[ast.AST, ast.AST] = {}
        level, depth = [cast("ast.AST", self._tree)], 0
        while level:
            inside = {inner: node for node in level for inner in ast.iter_child_nodes(node)}
            self._outer |= inside
            level, depth = list(inside), depth + 1
            if depth > _MOST_DEPTH:
                raise RefBenchError(f"{self.path} is not Python that can be read: it is nested too deep")

    def has(self, function: str) -> bool:
        return any(True for _ in self._functions(function))

    def returned(self, function: str, places: Mapping[str, str]) -> list[str]:
        """The texts that a function gives back, in their order. `places` names expressions by our placeholders."""
        scope = self._function(function)
        given = [node.value for node in self._own(scope) if isinstance(node, ast.Return) and node.value is not None]
        if len(given) != 1:
            raise self.unlike(f"one return with texts in {function}()", f"{len(given)} of them")
        parts = given[0].elts if isinstance(given[0], ast.Tuple | ast.List) else [given[0]]
        return [self._text(self._pieces(part, scope), places, function) for part in parts]

    def assigned(self, function: str, variable: str, places: Mapping[str, str]) -> str:
        """The text that a variable is first given in a function."""
        scope = self._function(function)
        first = self._first(scope, variable)
        return self._text(self._pieces(first, scope), places, function)

    def constant(self, variable: str, places: Mapping[str, str] | None = None) -> str:
        """The text that a variable is given, wherever in the file that is: in one place alone."""
        values = [
            node.value
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if _is(target, variable)
        ]
        if len(values) != 1:
            raise self.unlike(f"one line {variable} = ...", f"{len(values)} of them")
        return self._text(self._pieces(values[0], self._tree), places or {}, variable)

    def added(self, function: str, variable: str, places: Mapping[str, str]) -> str:
        """The texts that a function appends to a variable (`+=`), one behind the other, as one pass of a loop does."""
        scope = self._function(function)
        grown = [
            node
            for node in self._own(scope)
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is(node.target, variable)
        ]
        if not grown:
            raise self.unlike(f"texts added to {variable} in {function}()", "none")
        pieces = [piece for node in grown for piece in self._pieces(node.value, scope)]
        return self._text(pieces, places, function)

    def by_condition(self, function: str, variable: str, places: Mapping[str, str]) -> dict[frozenset[str], str]:
        """The text of a variable in each branch of a chain of conditions, by the names that the branch's test is about;
        by none in the last `else`."""
        scope = self._function(function)
        texts: dict[frozenset[str], str] = {}
        for node in self._own(scope):
            if isinstance(node, ast.Assign) and any(_is(target, variable) for target in node.targets):
                names = self._tested(node)
                if names in texts:
                    about = " and ".join(sorted(names)) or "neither"
                    raise self.unlike(f"one text of {variable} for {about} in {function}()", "two")
                texts[names] = self._text(self._pieces(node.value, scope), places, function)
        return texts

    def said_by(self, function: str, role: str) -> tuple[str, bool]:
        """What a chat message of this role says, and whether it says so in a list of parts."""
        scope = self._function(function)
        for node in self._own(scope):
            if isinstance(node, ast.Dict) and _value(node, "role") == role:
                content = _entry(node, "content")
                part = content.elts[0] if isinstance(content, ast.List) and len(content.elts) == 1 else content
                text = _entry(part, "text") if isinstance(part, ast.Dict) else part
                if text is None:
                    break
                return self._text(self._pieces(text, scope), {}, function), isinstance(content, ast.List)
        raise self.unlike(f"a message of the role {role} with one text in {function}()", "no such message")

    def captions(self, function: str, places: Mapping[str, str]) -> list[str]:
        """The texts that a function writes beside pictures (`"text": "..."`), in their order; not what it is given."""
        scope = self._function(function)
        said = [_entry(node, "text") for node in self._own(scope) if isinstance(node, ast.Dict)]
        pieces = [self._pieces(text, scope) for text in said if isinstance(text, ast.Constant | ast.JoinedStr)]
        if not pieces:
            raise self.unlike(f"texts between pictures in {function}()", "none")
        return [self._text(one, places, function) for one in pieces]

    def number(self, function: str, name: str) -> int:
        """A whole number that a function passes under a name, or first gives to a variable of that name."""
        scope = self._function(function)
        nodes: list[ast.expr] = [
            keyword.value
            for node in self._own(scope)
            if isinstance(node, ast.Call)
            for keyword in node.keywords
            if keyword.arg == name
        ] or [self._first(scope, name)]
        found = nodes[0]
        if isinstance(found, ast.Constant) and isinstance(found.value, int):
            return found.value
        raise self.unlike(f"a number for {name} in {function}()", ast.unparse(found))

    # --- where things are ---------------------------------------------------------------------------------------------

    def _functions(self, name: str) -> Iterator[Function]:
        """Functions and methods of this name, inside classes and other functions too."""
        for node in ast.walk(self._tree):
            if isinstance(node, _FUNCTIONS) and node.name == name:
                yield node

    def _function(self, name: str) -> Scope:
        found = list(self._functions(name))
        if len(found) == 1:
            return found[0]
        nodes = [node for node in ast.walk(self._tree) if isinstance(node, _FUNCTIONS)]
        there = ", ".join(f"{node.name}()" for node in nodes) or "no function"
        raise self.unlike(f"one function {name}()", "two of them" if found else there)

    @staticmethod
    def _own(scope: Scope) -> list[ast.AST]:
        """What belongs to the function itself and not to one inside it, as it stands in the file."""
        found: list[ast.AST] = []

        def visit(node: ast.AST) -> None:
            for inner in ast.iter_child_nodes(node):
                found.append(inner)
                if not isinstance(inner, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
                    visit(inner)

        visit(scope)
        return found

    def _values(self, scope: Scope, name: str) -> list[ast.expr]:
        return [
            node.value
            for node in self._own(scope)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if _is(target, name)
        ]

    def _first(self, scope: Scope, name: str) -> ast.expr:
        values = self._values(scope, name)
        if not values:
            where = getattr(scope, "name", self.path.name)
            raise self.unlike(f"{name} = ... in {where}()", "no such line")
        return values[0]

    def _tested(self, node: ast.AST) -> frozenset[str]:
        """The names in the test under which a line is reached; none in an `else`."""
        while not isinstance(self._outer.get(node), (ast.If, ast.Module, *_FUNCTIONS)):
            node = self._outer[node]
        outer = self._outer[node]
        if not isinstance(outer, ast.If) or node in outer.orelse:
            return frozenset()
        return frozenset(one.id for one in ast.walk(outer.test) if isinstance(one, ast.Name))

    def _scopes(self, scope: ast.AST) -> Iterator[Scope]:
        """The function, those around it, and the file."""
        node: ast.AST | None = scope
        while node is not None:
            if isinstance(node, (ast.Module, *_FUNCTIONS)):
                yield node
            node = self._outer.get(node)

    # --- what a text is made of ---------------------------------------------------------------------------------------

    def _pieces(self, node: ast.expr, scope: Scope, depth: int = 0) -> Pieces:
        """Literal texts and holes in their order. What cannot be known without running it is a hole."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if isinstance(node, ast.JoinedStr):
            return [piece for part in node.values for piece in self._pieces(part, scope, depth)]
        if isinstance(node, ast.FormattedValue):
            if node.conversion != -1 or node.format_spec is not None:
                return [Hole(ast.unparse(node))]
            return self._pieces(node.value, scope, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return [*self._pieces(node.left, scope, depth), *self._pieces(node.right, scope, depth)]
        if isinstance(node, ast.Name) and depth < 20:
            for place in self._scopes(scope):
                values = self._values(place, node.id)
                if len(values) == 1 and not self._is_grown(place, node.id):
                    return self._pieces(values[0], place, depth + 1)
                if values or node.id in _parameters(place):
                    break
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            made = self._called(node, node.func, scope, depth)
            if made is not None:
                return made
        return [Hole(ast.unparse(node))]

    def _is_grown(self, scope: Scope, name: str) -> bool:
        return any(isinstance(node, ast.AugAssign) and _is(node.target, name) for node in self._own(scope))

    def _called(self, node: ast.Call, method: ast.Attribute, scope: Scope, depth: int) -> Pieces | None:
        """What `.format`, `.replace` and `.strip` make of a text; None for anything else."""
        text = _merged(self._pieces(method.value, scope, depth))
        if not any(isinstance(piece, str) for piece in text):
            return None
        if method.attr in _STRIPS and not node.args and not node.keywords:
            return _stripped(text, method.attr)
        if method.attr == "replace" and len(node.args) == 2 and not node.keywords:
            old = self._pieces(node.args[0], scope, depth)
            if len(old) == 1 and isinstance(old[0], str) and old[0]:
                return _replaced(text, old[0], self._pieces(node.args[1], scope, depth))
        if method.attr == "format" and len(text) == 1 and isinstance(text[0], str):
            values = {str(at): self._pieces(value, scope, depth) for at, value in enumerate(node.args)}
            values |= {one.arg: self._pieces(one.value, scope, depth) for one in node.keywords if one.arg}
            return _formatted(text[0], values)
        return None

    def _text(self, pieces: Sequence[str | Hole], places: Mapping[str, str], function: str) -> str:
        """The pieces with our placeholders in the holes; refused where a value or a brace has no meaning for us."""
        literal = "".join(piece for piece in pieces if isinstance(piece, str))
        for expression, place in places.items():
            if place in literal:
                raise self.unlike(f"the place of {expression} in {function}()", f"{place} in the text itself")
        unknown = [piece.expression for piece in pieces if isinstance(piece, Hole) and piece.expression not in places]
        if unknown:
            known = ", ".join(places) or "no value"
            raise self.unlike(f"a text with {known} put into it in {function}()", unknown[0])
        return "".join(places[piece.expression] if isinstance(piece, Hole) else piece for piece in pieces)

    def unlike(self, wanted: str, found: str) -> RefBenchError:
        """The file does not say what was looked for: what it says instead."""
        found = found if len(found) <= 200 else f"{found[:197]}..."
        return RefBenchError(
            f"{self.path} is not as the release has it: looked for {wanted}, found {found}; check the file out again, "
            "or put the words into text files and name their folder"
        )


def _is(target: ast.AST, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _parameters(scope: Scope) -> set[str]:
    if isinstance(scope, ast.Module):
        return set()
    arguments = scope.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _entry(node: ast.Dict, key: str) -> ast.expr | None:
    keyed = zip(node.keys, node.values, strict=True)
    return next((value for one, value in keyed if isinstance(one, ast.Constant) and one.value == key), None)


def _value(node: ast.Dict, key: str) -> object:
    value = _entry(node, key)
    return value.value if isinstance(value, ast.Constant) else None


def _stripped(text: Pieces, way: str) -> Pieces | None:
    """None where an end that is stripped is a value, which may have anything at its end."""
    text = list(text)
    for at, strips in ((0, way != "rstrip"), (-1, way != "lstrip")):
        if not strips:
            continue
        piece = text[at]
        if isinstance(piece, Hole) or (not piece.strip() and len(text) > 1):
            return None
        text[at] = piece.lstrip() if at == 0 else piece.rstrip()
    return text


def _merged(text: Pieces) -> Pieces:
    """Literal texts that stand side by side as one."""
    made: Pieces = []
    for piece in text:
        if made and isinstance(piece, str) and isinstance(before := made[-1], str):
            made[-1] = before + piece
        else:
            made.append(piece)
    return made


def _replaced(text: Pieces, old: str, new: Pieces) -> Pieces:
    made: Pieces = []
    for piece in text:
        if isinstance(piece, Hole):
            made.append(piece)
            continue
        first, *others = piece.split(old)
        made.append(first)
        for other in others:
            made += [*new, other]
    return made


def _formatted(text: str, values: Mapping[str, Pieces]) -> Pieces | None:
    made: Pieces = []
    numbered = 0
    try:
        for literal, name, form, conversion in string.Formatter().parse(text):
            made.append(literal)
            if name is None:
                continue
            if name == "":
                name, numbered = str(numbered), numbered + 1
            if form or conversion or name not in values:
                return None
            made += values[name]
    except ValueError:
        return None
    return made
