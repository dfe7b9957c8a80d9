"""Reading noisy answers: intervals, combination and tests that account for the noise.

Everything here is computed from released numbers and their public noise laws, so it
costs nothing; the few procedures that touch private values say so and carry their
``loss``. Numbers may come from an answer (``(answer, "n", {"sex": "F"})``), a record,
a mechanism's release, or as plain numbers with a law.

=============================  ============================================================
question                       function
=============================  ============================================================
where is the exact value?      interval, ratio_interval, combine(…).estimate(w).interval
where is the population?       population_interval (every statistic of an answer),
                               Curator.survey (with survey weights),
                               proportion_interval, ump_interval, mean_interval,
                               parametric_bootstrap, normal_mean_interval (private data)
is a proportion p₀?            proportion_test, ump_test
do counts fit, are two         chisquare_gof, chisquare_independence
columns independent?
do means or ranks differ?      two_sample_test, anova_test, paired_test, mean_test, rank_test,
                               kruskal_test, signed_rank_test; any SciPy test: test_of_tests,
                               over a curator's table: curated_kruskal, curated_test
are two columns related?       correlation_test, Curator.regression
how are values spread?         histogram, ecdf
how many people are needed?    sample_size
what did GREATEST, ROUND do?   distortion
how useful is it?              noise_size, usefulness, accuracy, accuracy_curve, error_of
=============================  ============================================================

Examples
--------
>>> from discreet import inference as inf
>>> inf.proportion_test(value=34.21, n=100, p0=0.255, epsilon=0.5, noise="laplace").pvalue
0.0922...
"""

from __future__ import annotations

from discreet.inference._anova import anova_test, correlation_test
from discreet.inference._bands import Band, ecdf, histogram
from discreet.inference._chisquare import chisquare_gof, chisquare_independence
from discreet.inference._combine import Combined, Estimate, combine, inverse_variance
from discreet.inference._consistent import Consistent, check_consistent, consistent
from discreet.inference._curated import curated_test
from discreet.inference._curated_kruskal import curated_kruskal
from discreet.inference._design import sample_size
from discreet.inference._distortion import distortion
from discreet.inference._error import ErrorEstimate, error_of
from discreet.inference._inputs import Noisy, noisy
from discreet.inference._intervals import interval, nonnegative_bias, ratio_interval
from discreet.inference._kruskal import kruskal_test
from discreet.inference._laws import Gaussian, Laplace, Noise
from discreet.inference._logistic import Logistic, logistic
from discreet.inference._needed import rows_needed
from discreet.inference._nonnegative import Reconstruction
from discreet.inference._normal_mean import NormalMean, normal_mean_interval
from discreet.inference._population import population_interval
from discreet.inference._proportion import proportion_interval, proportion_test
from discreet.inference._regression import Regression, least_squares, table_of
from discreet.inference._results import Interval, TestResult
from discreet.inference._sampling import (
    NormalPlus,
    clamped_normal,
    mean_interval,
    parametric_bootstrap,
)
from discreet.inference._survey import Survey, survey
from discreet.inference._testoftests import test_of_tests, tuned_parts
from discreet.inference._twosample import (
    Moments,
    mean_test,
    moments,
    moments_of,
    paired_test,
    rank_test,
    signed_rank_test,
    two_sample_test,
)
from discreet.inference._ump import Tulap, ump_interval, ump_power, ump_test
from discreet.inference._utility import (
    Curve,
    Errors,
    NoiseSize,
    Usefulness,
    accuracy,
    accuracy_curve,
    errors,
    noise_size,
    usefulness,
    usefulness_of_runs,
)

__all__ = [
    "Band",
    "Combined",
    "Consistent",
    "Curve",
    "ErrorEstimate",
    "Errors",
    "Estimate",
    "Gaussian",
    "Interval",
    "Laplace",
    "Logistic",
    "Moments",
    "Noise",
    "NoiseSize",
    "Noisy",
    "NormalMean",
    "NormalPlus",
    "Reconstruction",
    "Regression",
    "Survey",
    "TestResult",
    "Tulap",
    "Usefulness",
    "accuracy",
    "accuracy_curve",
    "anova_test",
    "check_consistent",
    "chisquare_gof",
    "chisquare_independence",
    "clamped_normal",
    "combine",
    "consistent",
    "correlation_test",
    "curated_kruskal",
    "curated_test",
    "distortion",
    "ecdf",
    "error_of",
    "errors",
    "histogram",
    "interval",
    "inverse_variance",
    "kruskal_test",
    "least_squares",
    "logistic",
    "mean_interval",
    "mean_test",
    "moments",
    "moments_of",
    "noise_size",
    "noisy",
    "nonnegative_bias",
    "normal_mean_interval",
    "paired_test",
    "parametric_bootstrap",
    "population_interval",
    "proportion_interval",
    "proportion_test",
    "rank_test",
    "ratio_interval",
    "rows_needed",
    "sample_size",
    "signed_rank_test",
    "survey",
    "table_of",
    "test_of_tests",
    "tuned_parts",
    "two_sample_test",
    "ump_interval",
    "ump_power",
    "ump_test",
    "usefulness",
    "usefulness_of_runs",
]
