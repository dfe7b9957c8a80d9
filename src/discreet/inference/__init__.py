from discreet.inference._inputs import noisy
from discreet.inference._intervals import interval, ratio_interval, nonnegative_bias
from discreet.inference._proportion import proportion_test, proportion_interval
from discreet.inference._ump import *
from discreet.inference._sampling import *
from discreet.inference._combine import *
from discreet.inference._chisquare import *
from discreet.inference._twosample import *
