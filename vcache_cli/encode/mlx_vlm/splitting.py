"""The features that a model of mlx-vlm merges into its prompt, taken from its own code.

There are four places where the server's code itself parts a picture's features from the rest.
They are tried in this order; a model that has none of them cannot be split.

1. `encode_images`, which takes what the processor made and gives the features;
2. the branch of `get_input_embeddings` that chooses between `cached_image_features` and its own:
   what it has chosen is read there, and nothing after it runs;
3. the cache that is handed to `get_input_embeddings`: what the model puts into it;
4. `encode_image`, which takes pixels alone.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from vcache_cli.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from types import CodeType, FrameType

__all__ = ["IMAGE_KEY", "consults_cache", "features_of", "how_split"]

CACHED = "cached_image_features"
IMAGE_KEY = "_image_key"
"""The argument by which the server tells a model under which key its pictures are cached."""
_NOT_FOR_EMBEDDING = ("input_ids", "pixel_values", "attention_mask")


class _FoundError(BaseException):
    """Carries features out of the server's code, past what that code itself may catch."""

    def __init__(self, features: Any) -> None:  # noqa: ANN401  MLX ships no usable types
        super().__init__()
        self.features = features


@dataclass(frozen=True, slots=True)
class _Branch:
    """Where `get_input_embeddings` has chosen its features."""

    first_line: int
    last_line: int
    name: str
    """Of the local variable that holds them from there on."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the source of a model's `get_input_embeddings` shows."""

    code: CodeType
    branch: _Branch | None
    consults_cache: bool
    accepts_cached: bool
    loses: str = ""
    """What a cached picture would lack, where the branch drops more than the features."""


class _Recorder:
    """Stands in for the server's cache: always empty, and keeps what is put."""

    def get(self, _key: object) -> None:
        return None

    def put(self, _key: object, features: Any) -> None:  # noqa: ANN401  as above
        raise _FoundError(features)


def how_split(model: Any) -> str:  # noqa: ANN401  as above
    """By which of the places of this module the features of `model` are taken: its name.

    Raises:
        ModelError: the model takes no cached features, or would lose something by them.
    """
    reading, kind = _reading(model), type(model).__module__
    if reading is None or not reading.accepts_cached:
        raise ModelError(f"`{kind}`: takes no `{CACHED}`", hint=_HINT)
    if reading.loses:
        raise ModelError(
            f"`{kind}`: cannot be split: with `{CACHED}` it computes without `{reading.loses}`",
            hint=_HINT,
        )
    if hasattr(model, "encode_images"):
        return "encode_images"
    if reading.branch:
        return "branch"
    if reading.consults_cache:
        return "cache"
    if hasattr(model, "encode_image"):
        return "encode_image"
    raise ModelError(f"`{kind}`: its features cannot be told from the rest", hint=_HINT)


_HINT = "let the server itself encode for this model"


def consults_cache(model: Any) -> bool:  # noqa: ANN401  as above
    """Whether `model` looks into the server's cache itself."""
    reading = _reading(model)
    return reading is not None and reading.consults_cache


def features_of(model: Any, inputs: Mapping[str, Any]) -> Any:  # noqa: ANN401  as above
    """One array, or a list of one for each picture, as the model would merge it; lazy.

    Args:
        model: loaded by mlx-vlm.
        inputs: what the server's processor made of one request.

    Raises:
        ModelError: see `how_split`.
    """
    way = how_split(model)
    pixels = inputs["pixel_values"]
    if way == "encode_images":
        rest = {name: each for name, each in inputs.items() if name not in _NOT_FOR_EMBEDDING}
        return model.encode_images(pixels, **rest)
    if way == "encode_image":
        return model.encode_image(pixels)
    if way == "cache":
        return _caught(model, inputs, vision_cache=_Recorder(), **{IMAGE_KEY: "any"})
    return _traced(model, inputs)


def _caught(model: Any, inputs: Mapping[str, Any], **more: Any) -> Any:  # noqa: ANN401  as above
    rest = {name: each for name, each in inputs.items() if name not in _NOT_FOR_EMBEDDING}
    mask = inputs.get("attention_mask")
    embed = type(model).get_input_embeddings
    try:
        embed(model, inputs["input_ids"], inputs["pixel_values"], mask=mask, **{**rest, **more})
    except _FoundError as found:
        return found.features
    raise ModelError(f"`{type(model).__module__}`: gave no features for a picture", hint=_HINT)


def _traced(model: Any, inputs: Mapping[str, Any]) -> Any:  # noqa: ANN401  as above
    """Run to the first line after the branch, then read its variable."""
    reading = _reading(model)
    if reading is None or reading.branch is None:
        raise TypeError("no branch to stop behind")
    before = sys.gettrace()
    sys.settrace(_tracer(reading.code, reading.branch))
    try:
        return _caught(model, inputs)
    finally:
        sys.settrace(before)


def _tracer(code: CodeType, branch: _Branch) -> Callable[..., Any]:
    inside = False

    def watch(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal inside
        if event == "line" and branch.first_line <= frame.f_lineno <= branch.last_line:
            inside = True
        elif event in {"line", "return"} and inside:
            raise _FoundError(frame.f_locals[branch.name])
        return watch

    def begin(frame: FrameType, _event: str, _: object) -> Callable[..., Any] | None:
        return watch if frame.f_code is code else None

    return begin


# --- reading the source --------------------------------------------------------------------------


def _reading(model: Any) -> _Reading | None:  # noqa: ANN401  as above
    return _read(cast("Hashable", type(model)))


@cache
def _read(kind: Hashable) -> _Reading | None:
    """None where the source is not to be had."""
    method = getattr(kind, "get_input_embeddings", None)
    function = inspect.unwrap(method) if method else None
    try:
        lines, first = inspect.getsourcelines(function) if function else ([], 0)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    if function is None:
        return None
    text = "".join(lines)
    ast.increment_lineno(tree, max(first, 1) - 1)
    branch, loses = _branch(tree)
    return _Reading(function.__code__, branch, "vision_cache" in text, CACHED in text, loses)


def _branch(tree: ast.AST) -> tuple[_Branch | None, str]:
    names = {name for node in ast.walk(tree) if (name := _asked_for(node))}
    for node in ast.walk(tree):
        chosen = _chosen(node, names)
        if chosen:
            return chosen, _lost(node, chosen, tree)
    return None, ""


def _asked_for(node: ast.AST) -> str:
    """The variable to which a statement gives the cached features."""
    if not isinstance(node, ast.Assign) or CACHED not in ast.unparse(node.value):
        return ""
    target = node.targets[0]
    is_plain = isinstance(target, ast.Name) and isinstance(node.value, ast.Call | ast.IfExp)
    return target.id if is_plain and isinstance(target, ast.Name) else ""


def _chosen(node: ast.AST, names: set[str]) -> _Branch | None:
    """The branch of ``if NAME is not None: X = NAME; else: X = ...``, or another spelling of it."""
    if not isinstance(node, ast.If | ast.Assign):
        return None
    inside = ast.walk(node.value) if isinstance(node, ast.Assign) else [node]
    choice = next((each for each in inside if isinstance(each, ast.If | ast.IfExp)), None)
    test = ast.unparse(choice.test) if choice else ""
    name = test.partition(" is ")[0]
    if name not in names or test not in {f"{name} is not None", f"{name} is None"}:
        return None
    found = _target(node, name, is_there=test.endswith("not None"))
    return _Branch(node.lineno, node.end_lineno or node.lineno, found) if found else None


def _target(node: ast.If | ast.Assign, name: str, *, is_there: bool) -> str:
    """The variable that holds the features on either side."""
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    if not is_there and not node.orelse:
        return name if name in _assigned(node.body) else ""
    return _assigned_from(node.body if is_there else node.orelse, name)


def _assigned_from(body: list[ast.stmt], name: str) -> str:
    plain = (name, f"{name}.astype(inputs_embeds.dtype)")
    for statement in body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name) and ast.unparse(statement.value) in plain:  # type: ignore[attr-defined]
            return target.id
    return ""


def _assigned(body: list[ast.stmt]) -> set[str]:
    nodes = (node for statement in body for node in ast.walk(statement))
    return {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _lost(choice: ast.AST, branch: _Branch, tree: ast.AST) -> str:
    """A variable that a cached picture leaves empty and that is read afterwards."""
    body = []
    if isinstance(choice, ast.If):
        body = choice.body if ast.unparse(choice.test).endswith("not None") else choice.orelse
    empty = _assigned(body) - {branch.name}
    for node in ast.walk(tree):
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if is_read and node.id in empty and node.lineno > branch.last_line:  # type: ignore[attr-defined]
            return str(node.id)  # type: ignore[attr-defined]
    return ""
