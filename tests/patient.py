"""python_coder for programs that only end because somebody ends them: their own limit is an hour."""

from functools import partial

from agentflow.tools import python_coder as module
from agentflow.tools.sandbox.limits import Limits

PatientLimits = partial(Limits, seconds=3600.0)

python_coder = module.python_coder(PatientLimits())
