"""The vocabulary that every floor shares: tensors, requests, deadlines, timelines, the clock.

Standard library and numpy only. Import from the modules (`trilith.core.tensor`), so that what does not touch tensors
does not load numpy.
"""
