"""How hard Hypothesis tries: HYPOTHESIS_PROFILE=thorough for a long look, quick otherwise.

Both draw anew in every run; a failure prints the blob that repeats it.
"""

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, print_blob=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
