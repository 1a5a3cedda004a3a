"""MultiBanana's agents around any image model and any VLM: ipr, cafg and sra."""

from refbench.models.agents.agent import METHODS, Agent, Method

__all__ = ["METHODS", "Agent", "Method"]
