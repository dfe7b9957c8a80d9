"""AHP: noisy cells, clustered by value, each cluster measured once more.

Guarantee
---------
Two measurements with shares that add up to 1: all cells, then the sums of clusters that are a
function of the first answer alone. A record lies in one cell and in one cluster.

How (Zhang, Chen, Xu, Meng, Xie 2014)
-------------------------------------
Values at or below η·ln n times the noise scale are set to 0, the rest is sorted; walking down,
a value joins the open cluster while that has less expected squared error,
SSE + variance/|C|, than a cluster of its own. Each cell of a cluster gets the cluster's mean.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import Hint, ParameterError
from discreet.release._counts import fitting
from discreet.release._mechanism import Job, Mechanism, read_share
from discreet.release._queries import Levels, groups
from discreet.release._questions import Course

Array = NDArray[np.float64]


class Ahp(Mechanism):
    """Adaptive clusters of similar cells."""

    method: ClassVar[str] = "ahp"

    def __init__(self, job: Job, *, share: float = 0.85, eta: float = 0.35) -> None:
        super().__init__(job)
        fitting(job.workload.shape)
        if not 0 <= eta < 100:
            raise ParameterError("eta must lie between 0 and 100", hint=Hint("eta", 0.35))
        self.share, self.eta = read_share(share, 0.85), eta

    def course(self) -> Course:
        """Measure cells, cluster, measure clusters."""
        job, shape = self.job, self.job.workload.shape
        first = job.measurement(Levels(shape, ((1, 1),)), self.share, "cells")
        noisy = np.asarray((yield first), dtype=np.float64)
        threshold = self.eta * math.log(max(2, noisy.size)) * first.law.std / math.sqrt(2)
        values = np.where(noisy <= threshold, 0.0, noisy)
        blank = job.measurement(Levels((1,), ((1, 1),)), 1 - self.share)
        labels = clusters(values, blank.law.variance)
        query = groups(labels)
        sums = yield job.measurement(query, 1 - self.share, f"{query.rows} clusters")
        means = np.asarray(sums, dtype=np.float64) / np.bincount(labels)
        return np.maximum(means, 0.0)[labels].reshape(shape)


def clusters(values: Array, variance: float) -> NDArray[np.int64]:
    """Return greedy clusters of similar values, as labels."""
    order = np.argsort(-values, kind="stable")
    labels = np.zeros(len(values), dtype=np.int64)
    label, size, total, squares = 0, 0, 0.0, 0.0
    for index, value in zip(order.tolist(), values[order].tolist(), strict=True):
        if size:
            own = squares - total * total / size + variance / size
            grown = squares + value * value - (total + value) ** 2 / (size + 1)
            if grown + variance / (size + 1) >= own + variance:
                label, size, total, squares = label + 1, 0, 0.0, 0.0
        labels[index] = label
        size, total, squares = size + 1, total + value, squares + value * value
    return labels
