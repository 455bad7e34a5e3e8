"""Whole models of mlx-vlm with seeded random weights, a few hundred kilobytes each.

A folder has what a published checkpoint has: configuration, weights, a tokenizer that knows bytes
and the family's marks, a chat template and the settings of its image processor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.parity.tiny_configs import CONFIGS, MARKS, PROCESSORS, TEMPLATES, TOKENIZERS, VOCABULARY

__all__ = ["FAMILIES", "make_model"]

FAMILIES = tuple(CONFIGS)
_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' or c.type == 'image_url' %}IMAGE"
    "{% elif c.type == 'text' %}{{ c.text or c.content }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_model(
    folder: Path,
    family: str,
    *,
    vision: Mapping[str, Any] | None = None,
    processor: Mapping[str, Any] | None = None,
) -> Path:
    """Write a tiny `family` model to `folder`; the folder.

    Args:
        vision: other settings of the vision part.
        processor: other settings of the image processor.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *MARKS[family]]
    ids = _write_tokenizer(folder, family, marks)
    config = _resolved(CONFIGS[family], ids)
    config["vision_config"] |= vision or {}
    _write_json(folder / "config.json", config)
    for name, content in PROCESSORS[family].items():
        _write_json(folder / name, {**content, **(processor or {})})
    _write_weights(folder, json.loads(json.dumps(config)))
    return folder


def _resolved(value: Any, ids: Mapping[str, int]) -> Any:  # noqa: ANN401  JSON
    """`value` with each mark that stands for its token's number replaced."""
    if isinstance(value, dict):
        return {name: _resolved(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, ids) for each in value]
    if isinstance(value, str) and value.startswith("id:"):
        return ids[value.removeprefix("id:")]
    return value


def _write_tokenizer(folder: Path, family: str, marks: list[str]) -> dict[str, int]:
    """A tokenizer of single bytes and of `marks`, as large as the model's vocabulary.

    Returns:
        The number of each mark.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    spare = [f"<|spare_{number}|>" for number in range(VOCABULARY - len(alphabet) - len(marks))]
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in [*marks, *spare]])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "bos_token": "<|im_start|>",
        "chat_template": _CHAT.replace("IMAGE", TEMPLATES[family]),
        "model_max_length": 100_000,
        **TOKENIZERS.get(family, {}),
    }
    _write_json(folder / "tokenizer_config.json", settings)
    _write_json(folder / "chat_template.json", {"chat_template": settings["chat_template"]})
    return {mark: tokenizer.token_to_id(mark) for mark in marks}


def _write_weights(folder: Path, config: dict[str, Any]) -> None:
    """Random weights in the names and layouts that mlx-vlm itself saves."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_vlm.utils import get_model_and_args, update_module_configs

    package, _ = get_model_and_args(config)
    config.setdefault("text_config", {})
    parsed = package.ModelConfig.from_dict(config)
    parts = ["text", "vision", "perceiver", "projector", "audio"]
    parsed = update_module_configs(parsed, package, config, parts)
    mx.random.seed(7)
    model = package.Model(parsed)
    flat: Any = tree_flatten(model.parameters())  # a list of pairs, as nothing else is asked for
    weights = {name: _drawn(mx, name, array) for name, array in flat}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


def _drawn(mx: Any, name: str, array: Any) -> Any:  # noqa: ANN401  MLX ships no usable types
    """Values of a size that keeps activations near one, so that a difference shows."""
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    if array.ndim < 2:
        base = 1.0 if name.endswith("weight") else 0.0
        return (base + 0.1 * mx.random.normal(array.shape)).astype(mx.float32)
    fan_in = array.size // array.shape[0]
    return mx.random.normal(array.shape) * fan_in**-0.5


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True), encoding="utf-8")
