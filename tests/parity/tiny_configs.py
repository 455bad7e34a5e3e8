"""Configurations of the tiny models. `id:MARK` stands for the number of that token."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["CONFIGS", "MARKS", "PROCESSORS", "TEMPLATES", "VOCABULARY"]

VOCABULARY: Final = 320
"""Tokens of every tiny model."""
_QWEN_MARKS: Final = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
_QWEN_IMAGE: Final = "<|vision_start|><|image_pad|><|vision_end|>"
_QWEN_IDS: Final = {
    "image_token_id": "id:<|image_pad|>",
    "video_token_id": "id:<|video_pad|>",
    "vision_start_token_id": "id:<|vision_start|>",
    "vision_end_token_id": "id:<|vision_end|>",
    "vision_token_id": "id:<|image_pad|>",
    "eos_token_id": "id:<|endoftext|>",
    "vocab_size": VOCABULARY,
}
_TEXT: Final[dict[str, Any]] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
_QWEN_VISION: Final[dict[str, Any]] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 64,
    "in_channels": 3,
    "in_chans": 3,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}


def _qwen_processor(patch_size: int, name: str) -> dict[str, Any]:
    settings = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": name,
        "patch_size": patch_size,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": 64 * 28 * 28,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    return {"preprocessor_config.json": settings}


CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "qwen2_5_vl": {
        "model_type": "qwen2_5_vl",
        **_TEXT,
        **_QWEN_IDS,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "vision_config": {
            **_QWEN_VISION,
            "model_type": "qwen2_5_vl",
            "patch_size": 14,
            "spatial_patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": [1],
        },
    },
    "qwen3_5": {
        "model_type": "qwen3_5",
        **_QWEN_IDS,
        "text_config": {
            **_TEXT,
            "model_type": "qwen3_5_text",
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_conv_kernel_dim": 4,
            "full_attention_interval": 2,
            "head_dim": 32,
            "rope_parameters": {
                "type": "default",
                "mrope_section": [2, 1, 1],
                "rope_theta": 100000,
                "partial_rotary_factor": 0.25,
            },
        },
        "vision_config": {
            **_QWEN_VISION,
            "model_type": "qwen3_5",
            "patch_size": 16,
            "spatial_patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [],
        },
    },
}

MARKS: Final[dict[str, list[str]]] = {"qwen2_5_vl": _QWEN_MARKS, "qwen3_5": _QWEN_MARKS}

TEMPLATES: Final[dict[str, str]] = {"qwen2_5_vl": _QWEN_IMAGE, "qwen3_5": _QWEN_IMAGE}

PROCESSORS: Final[dict[str, dict[str, Any]]] = {
    "qwen2_5_vl": _qwen_processor(14, "Qwen2_5_VLProcessor"),
    "qwen3_5": _qwen_processor(16, "Qwen3VLProcessor"),
}
