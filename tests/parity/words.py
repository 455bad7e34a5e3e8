"""A tokenizer of marks alone: enough for a server's processor to count tokens of pictures."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["write_tokenizer"]


def write_tokenizer(folder: Path, *marks: str) -> None:
    """Write the files of a tokenizer that knows `marks`, and one word for all else."""
    words = ["<unk>", "<pad>", *marks]
    added = [
        {"id": number, "content": word, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number, word in enumerate(words)
    ]
    model = {
        "type": "WordLevel",
        "vocab": {word: number for number, word in enumerate(words)},
        "unk_token": "<unk>",
    }
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding")
    whole = {"version": "1.0", "added_tokens": added, "model": model, **dict.fromkeys(parts)}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "model_max_length": 1_000_000,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
