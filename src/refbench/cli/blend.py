"""`refbench blend`: the commands of RefBlend, each imported when it is used."""

from __future__ import annotations

from cyclopts import App, Parameter

COMMANDS = {
    "combos": ("blend_rules", "List the sets of reference types that the rules allow"),
    "explain": ("blend_rules", "Say why a set of reference types is allowed or forbidden"),
    "build": ("blend_build", "Make a dataset of multi-reference samples from pictures, resumably"),
    "stats": ("blend_stats", "Say what a dataset holds, and what was left out and why"),
}

blend_command = App(
    name="blend",
    help="Make multi-reference samples from pictures (RefBlend): which references go together, and datasets of them.",
    default_parameter=Parameter(negative=()),
)

for _name, (_module, _help) in COMMANDS.items():
    blend_command.command(f"refbench.cli.{_module}:{_name}_command", name=_name, help=_help)
