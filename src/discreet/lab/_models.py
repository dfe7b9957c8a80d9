"""Models that tell: attribute inference, and inversion of a model's confidence.

* :func:`infer_attribute`: who knows a person's other attributes and what the model said
  about them tries every value of the missing one and keeps the likeliest (Fredrikson et
  al. 2014, on doses of a drug).
* :func:`invert_model`: who may ask a classifier for its confidence climbs to the input of
  which it is surest; for a class that is one person that is their face (Fredrikson, Jha &
  Ristenpart 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError
from discreet.lab._table import Floats


def infer_attribute(
    predict: Callable[[Mapping[str, Any]], float],
    known: Mapping[str, Any],
    attribute: str,
    prior: Mapping[Any, float],
    output: float,
    *,
    error: float = 1.0,
) -> dict[Any, float]:
    """Return how likely each value of an unknown attribute is, given a model's output.

    Parameters
    ----------
    predict
        The model: attributes to a number.
    known
        What is known about the person.
    attribute, prior
        The attribute sought, its values and how common they are.
    output
        What the model (or the truth it predicts) was for the person.
    error
        Standard deviation of the difference between the two.

    Examples
    --------
    >>> from discreet import lab
    >>> dose = lambda p: 40 - 0.2 * p["age"] - 9 * p["variant"]
    >>> found = lab.infer_attribute(
    ...     dose, {"age": 50}, "variant", prior={0: 0.7, 1: 0.2, 2: 0.1}, output=21, error=2
    ... )
    >>> max(found, key=found.get), round(found[1], 2)
    (1, 1.0)
    """
    if not prior or error <= 0:
        raise ParameterError(
            "give a prior and a positive error", hint=Hint("prior", {0: 0.5, 1: 0.5})
        )
    logs = {
        value: np.log(share) - ((predict({**known, attribute: value}) - output) / error) ** 2 / 2
        for value, share in prior.items()
        if share > 0
    }
    top = max(logs.values())
    weights = {value: float(np.exp(x - top)) for value, x in logs.items()}
    return {value: w / sum(weights.values()) for value, w in weights.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """Softmax regression: the small model that :func:`invert_model` turns inside out."""

    weights: Floats
    offsets: Floats

    def confidence(self, inputs: Any) -> Floats:
        """Return the confidence in each class, one row per input."""
        z = np.atleast_2d(np.asarray(inputs, float)) @ self.weights.T + self.offsets
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        return np.asarray(e / e.sum(axis=1, keepdims=True))


def train(inputs: Any, labels: Sequence[int] | Any, *, steps: int = 300) -> Classifier:
    """Fit softmax regression by gradient descent with a little weight decay.

    >>> import numpy as np
    >>> from discreet import lab
    >>> x = np.repeat(np.eye(3), 5, axis=0)
    >>> model = lab.train(x, np.repeat([0, 1, 2], 5))
    >>> model.confidence(np.eye(3)).argmax(axis=1).tolist()
    [0, 1, 2]
    """
    x = np.asarray(inputs, float)
    y = np.asarray(labels, dtype=np.int64)
    targets = np.eye(int(y.max()) + 1)[y]
    model = Classifier(np.zeros((targets.shape[1], x.shape[1])), np.zeros(targets.shape[1]))
    for _ in range(steps):
        miss = targets - model.confidence(x)
        model = Classifier(
            0.999 * model.weights + 0.5 * miss.T @ x / len(x),
            model.offsets + 0.5 * miss.mean(axis=0),
        )
    return model


def invert_model(
    confidence: Callable[[Floats], Floats],
    label: int,
    size: int,
    *,
    steps: int = 200,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Floats:
    """Climb to an input of which a classifier is as sure as it can be.

    Only confidences are asked for, never the model's inside: the slope is measured by
    moving one attribute at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import lab
    >>> faces = np.array([[1, 1, 0, 0, 1, 0], [0, 1, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1]], float)
    >>> model = lab.train(faces, [0, 1, 2])
    >>> face = lab.invert_model(model.confidence, label=1, size=6)
    >>> (face > 0.5).astype(int).tolist()
    [0, 1, 1, 0, 0, 1]
    """
    low, high = bounds
    guess = np.full(size, (low + high) / 2)
    reach = (high - low) * 1e-3
    for _ in range(steps):
        moved = guess + reach * np.vstack([np.eye(size), -np.eye(size)])
        score = np.log(np.maximum(confidence(moved)[:, label], 1e-300))
        slope = score[:size] - score[size:]
        scale = np.abs(slope).max()
        if scale == 0:
            break
        guess = np.clip(guess + 0.05 * (high - low) * slope / scale, low, high)
    return guess
