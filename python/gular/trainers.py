"""What training frameworks know of a resume, and do not tell their loaders."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, List, Mapping, Optional

from .errors import OptionError

#: The packages of Lightning.
_LIGHTNING = ("pytorch_lightning", "lightning")


def check_accumulation(steps: int) -> None:
    """Compares the number of batches of an epoch with those that accelerate puts together.

    :raises gular.OptionError: where some would be left at the end: accelerate knows the end of an epoch
        of its own loaders alone.
    """
    module = sys.modules.get("accelerate.state")
    shared = getattr(getattr(module, "GradientState", None), "_shared_state", None) or {}
    together = int(shared.get("plugin_kwargs", {}).get("num_steps", 1))
    if steps % together:
        raise OptionError(
            f"option `gradient_accumulation_steps` of accelerate: {together} batches make a step, an epoch of this loader has "
            f"{steps}, and accelerate does not know where it ends, so that the last ones would be left out",
            "give `accelerator.prepare` PyTorch's DataLoader over `gular.GularDataset` with `gular.ElasticSampler(data, rank=0, world_size=1)`",
        )


class Untold:
    """States of loaders that Lightning has read from a checkpoint, and not given to the loaders.

    It gives them where it sets the loaders up. A model that asks for ``trainer.estimated_stepping_batches``
    has them set up before the checkpoint is read, and then Lightning leaves the states where they are.
    """

    def __init__(self) -> None:
        #: Those that were seen: Lightning keeps them.
        self._seen: Optional[List[Any]] = None

    def state(self, loader: Any) -> Optional[Mapping[str, Any]]:
        """That of ``loader``, once, where Lightning asks for a batch."""
        loop = _lightning()
        states = getattr(loop, "_combined_loader_states_to_load", None)
        combined = getattr(loop, "_combined_loader", None)
        if not states or combined is None or states is self._seen:
            return None
        # As Lightning numbers them.
        stateful = [one for one in combined.flattened if hasattr(one, "state_dict") and hasattr(one, "load_state_dict")]
        at = next((at for at, one in enumerate(stateful) if one is loader), None)
        if at is None or len(states) != len(stateful):
            return None
        self._seen = states
        state: Mapping[str, Any] = states[at]
        return state


def _lightning() -> Any:
    """The loop of Lightning's training that this is called from."""
    if not any(name in sys.modules for name in _LIGHTNING):
        return None
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        loop = frame.f_locals.get("self") if frame.f_code.co_name == "run" else None
        if type(loop).__name__ == "_FitLoop" and type(loop).__module__.partition(".")[0] in _LIGHTNING:
            return loop
        frame = frame.f_back
    return None
