"""The text in which LightGBM writes its models, looked through.

LightGBM believes what it reads: a tree that is cut short makes it end the process, and a node that points outside of
its tree, or back to itself, makes it read memory that is not its own, or run for ever. So each tree is held to this:

Rule 1: it is as long as the header says, and has as many numbers of each kind as its leaves need.
Rule 2: the children of a node are leaves of the tree, or nodes that come after it: what walks down arrives.
Rule 3: a node asks for a feature, or a category set, that there is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_BRANCHES: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_MAYBE_OF_LEAVES: Final = ("leaf_weight", "leaf_count")
_MAYBE_OF_BRANCHES: Final = ("split_gain", "internal_value", "internal_weight", "internal_count")
_SINGLE: Final = ("num_cat", "shrinkage", "is_linear")
_END_OF_TREES: Final = "\nend of trees"
_KEYS: Final = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)
_NUMBER: Final = r"(?:[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf|nan))"
_NUMBERS: Final = re.compile(rf"{_NUMBER}(?: {_NUMBER})*")
_INTEGERS: Final = re.compile(r"-?\d{1,10}(?: -?\d{1,10})*")
_PARAMETER: Final = re.compile(r"\[\w+: .*\]")
_MOST: Final = 2**31 - 1
_CATEGORICAL: Final = 1  # a bit of `decision_type`


class _Damage(Exception):
    """What is wrong."""


def read_header(text: str) -> Mapping[str, str]:
    """The keys before the first tree."""
    return dict(_KEYS.findall(text.partition("\nTree=")[0]))


def find_damage(text: str) -> str:
    """What is wrong with the text of a model; "" for nothing."""
    if not text.startswith("tree\n"):
        return "it does not begin with the line 'tree'"
    _, end, rest = text.partition(_END_OF_TREES)
    if not end:
        return "the line 'end of trees' is missing"
    _, begins, parameters = rest.partition("\nparameters:\n")
    parameters, ends, _ = parameters.partition("\nend of parameters")
    if begins and not ends:
        return "the line 'end of parameters' is missing"
    for line in parameters.splitlines():
        if line and not _PARAMETER.fullmatch(line):
            return f"a line of its parameters is {line!r}"
    header = read_header(text)
    try:
        features = _integers(header, "max_feature_idx", 1)[0] + 1
        sizes_bytes = _integers(header, "tree_sizes", header.get("tree_sizes", "").rstrip().count(" ") + 1)
        for key in ("num_class", "num_tree_per_iteration"):
            (count,) = _integers(header, key, 1)
            if not 1 <= count <= len(sizes_bytes) or len(sizes_bytes) % count:
                raise _Damage(f"{key} is {count}, and there are {len(sizes_bytes)} trees")
    except _Damage as damage:
        return str(damage)
    trees = text.encode()
    begin = trees.find(b"\nTree=") + 1
    for at, size_bytes in enumerate(sizes_bytes):
        tree = trees[begin : begin + size_bytes]
        begin += size_bytes
        if not tree.startswith(f"Tree={at}\n".encode()) or tree != tree.rstrip() + b"\n\n\n":
            return f"tree {at} does not begin, or end, where the header says"
        try:
            _see_tree(_keys_of(tree.decode()), features)
        except _Damage as damage:
            return f"tree {at}: {damage}"
    return (
        "" if trees.startswith(b"end of trees", begin) else f"there is more after the last of {len(sizes_bytes)} trees"
    )


def _keys_of(tree: str) -> Mapping[str, str]:
    found = {}
    for line in tree.rstrip().split("\n"):
        key, sign, value = line.partition("=")
        if not sign or not key.isidentifier():
            raise _Damage(f"a line is {line[:40]!r}")
        found[key] = value
    return found


def _see_tree(keys: Mapping[str, str], features: int) -> None:
    (leaves,) = _integers(keys, "num_leaves", 1)
    if leaves < 1:
        raise _Damage(f"num_leaves is {leaves}")
    _numbers(keys, "leaf_value", leaves)
    for names, count in ((_MAYBE_OF_LEAVES, leaves), (_MAYBE_OF_BRANCHES, leaves - 1), (_SINGLE, 1)):
        for key in names:
            if keys.get(key):
                (_integers if key.endswith("_count") else _numbers)(keys, key, count)
    if leaves == 1:
        return
    for key in _BRANCHES:
        _numbers(keys, key, leaves - 1)
    for key in ("left_child", "right_child"):
        for at, child in enumerate(_integers(keys, key, leaves - 1)):
            if not (-leaves <= child < 0 or at < child < leaves - 1):
                raise _Damage(f"{key} of node {at} is {child}, which is no leaf and no later node")
    for at, feature in enumerate(_integers(keys, "split_feature", leaves - 1)):
        if not 0 <= feature < features:
            raise _Damage(f"split_feature of node {at} is {feature}; there are {features} features")
    kinds = _integers(keys, "decision_type", leaves - 1)
    if any(kind & _CATEGORICAL for kind in kinds):
        _see_categories(keys, [value for kind, value in _thresholds(keys, kinds) if kind & _CATEGORICAL])


def _thresholds(keys: Mapping[str, str], kinds: list[int]) -> list[tuple[int, float]]:
    return list(zip(kinds, map(float, keys["threshold"].split()), strict=True))


def _see_categories(keys: Mapping[str, str], sets: list[float]) -> None:
    """Sets of categories are bits in one row of words, each set between two boundaries."""
    (count,) = _integers(keys, "num_cat", 1)
    if not all(0 <= number < count for number in sets):
        raise _Damage(f"threshold points outside of the {count} sets of categories")
    boundaries = _integers(keys, "cat_boundaries", count + 1)
    if boundaries[0] != 0 or boundaries != sorted(boundaries):
        raise _Damage("cat_boundaries do not ascend")
    _numbers(keys, "cat_threshold", boundaries[-1])


def _numbers(keys: Mapping[str, str], key: str, count: int) -> str:
    text = keys.get(key, "").rstrip()
    found = text.count(" ") + 1 if text else 0
    if found != count:
        raise _Damage(f"{key} has {found} numbers instead of {count}")
    if not _NUMBERS.fullmatch(text):
        raise _Damage(f"{key} is not made of numbers")
    return text


def _integers(keys: Mapping[str, str], key: str, count: int) -> list[int]:
    text = _numbers(keys, key, count)
    if not _INTEGERS.fullmatch(text):
        raise _Damage(f"{key} is not made of integers")
    found = [int(word) for word in text.split(" ")]
    if max(found) > _MOST or min(found) < -_MOST:
        raise _Damage(f"{key} has integers that are too large")
    return found
