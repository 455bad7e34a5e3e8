"""Configurations of the tiny models. `id:MARK` stands for the number of that token."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["CONFIGS", "MARKS", "PROCESSORS", "TEMPLATES", "TOKENIZERS", "VOCABULARY"]

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


def _configured(
    family: str, text: dict[str, Any], vision: dict[str, Any], more: dict[str, Any]
) -> dict[str, Any]:
    """A configuration with its parts."""
    return {
        "model_type": family,
        "vocab_size": VOCABULARY,
        "eos_token_id": ["id:<|endoftext|>"],
        "text_config": {**_TEXT, **text},
        "vision_config": {**_VISION, **vision},
        **more,
    }


_VISION: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_channels": 3,
}
_SIGLIP: Final = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
_MARKED: Final = {"image_token_index": "id:<image>"}

CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "qwen2_vl": {
        "model_type": "qwen2_vl",
        **_TEXT,
        **_QWEN_IDS,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "vision_config": {
            **_QWEN_VISION,
            "model_type": "qwen2_vl",
            "embed_dim": 32,
            "hidden_size": 64,
            "mlp_ratio": 2,
            "patch_size": 14,
            "spatial_patch_size": 14,
        },
    },
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
    "mimo_v2": {
        "model_type": "mimo_v2",
        **_TEXT,
        **_QWEN_IDS,
        "audio_token_id": "id:<|audio_pad|>",
        "moe_intermediate_size": 32,
        "head_dim": 16,
        "partial_rotary_factor": 0.5,
        "v_head_dim": 16,
        "swa_head_dim": 16,
        "swa_v_head_dim": 16,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "hybrid_layer_pattern": [0, 1],
        "moe_layer_freq": [0, 0],
        "n_routed_experts": 2,
        "num_experts_per_tok": 1,
        "tie_word_embeddings": False,
        "vision_config": {
            **_QWEN_VISION,
            "model_type": "mimovl",
            "num_heads": 4,
            "num_key_value_heads": 2,
            "num_query_groups": 2,
            "qk_channels": 8,
            "patch_size": 16,
            "spatial_patch_size": 16,
            "fullatt_block_indexes": [0],
            "vit_window_attn_types": [-1, 0],
            "window_size": 4,
        },
        "audio_config": {
            "out_hidden_size": 64,
            "input_local_dim": 32,
            "input_local_attn_heads": 2,
            "input_local_head_dim": 16,
            "input_local_intermediate_size": 32,
            "input_local_layers": 1,
        },
    },
    "llava": _configured(
        "llava",
        {"model_type": "llama"},
        {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14},
        {
            **_MARKED,
        },
    ),
    "llava_next": _configured(
        "llava_next",
        {"model_type": "llama"},
        {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14},
        {
            **_MARKED,
            "image_grid_pinpoints": [[56, 112], [112, 56], [112, 112]],
        },
    ),
    "paligemma": _configured(
        "paligemma",
        {"model_type": "gemma", "head_dim": 16},
        {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14},
        {
            **_MARKED,
            "hidden_size": 64,
            "projection_dim": 64,
        },
    ),
    "gemma3": _configured(
        "gemma3",
        {
            "model_type": "gemma3_text",
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window_pattern": 2,
            "mm_tokens_per_image": 16,
        },
        {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 7},
        {
            "image_token_index": "id:<image_soft_token>",
            "mm_tokens_per_image": 16,
            "hidden_size": 64,
        },
    ),
    "pixtral": _configured(
        "pixtral",
        {"model_type": "mistral", "head_dim": 16},
        {"model_type": "pixtral", "head_dim": 16, "image_size": 112, "patch_size": 14},
        {
            "image_token_index": "id:[IMG]",
        },
    ),
    "mistral3": _configured(
        "mistral3",
        {"model_type": "mistral", "head_dim": 16},
        {"model_type": "pixtral", "head_dim": 16, "image_size": 112, "patch_size": 14},
        {
            "image_token_index": "id:[IMG]",
            "spatial_merge_size": 2,
        },
    ),
    "idefics3": _configured(
        "idefics3",
        {"model_type": "llama"},
        {"model_type": "idefics3", "image_size": 56, "patch_size": 14},
        {
            "image_token_id": "id:<image>",
            "scale_factor": 2,
        },
    ),
    "smolvlm": _configured(
        "smolvlm",
        {"model_type": "llama"},
        {"model_type": "smolvlm_vision", "image_size": 56, "patch_size": 14},
        {
            "image_token_id": "id:<image>",
            "scale_factor": 2,
        },
    ),
    "internvl_chat": _configured(
        "internvl_chat",
        {"model_type": "qwen2"},
        {
            "model_type": "intern_vit_6b",
            "hidden_size": 64,
            "image_size": 112,
            "patch_size": 28,
        },
        {
            "image_token_index": "id:<IMG_CONTEXT>",
            "downsample_ratio": 0.5,
        },
    ),
    "gemma4": _configured(
        "gemma4",
        {
            "model_type": "gemma4_text",
            "head_dim": 16,
            "global_head_dim": 32,
            "num_kv_shared_layers": 0,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": VOCABULARY,
            "sliding_window_pattern": 2,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        {
            "model_type": "gemma4_vision",
            "num_key_value_heads": 2,
            "head_dim": 16,
            "global_head_dim": 16,
            "default_output_length": 70,
            "patch_size": 16,
            "position_embedding_size": 64,
            "pooling_kernel_size": 3,
        },
        {
            "image_token_id": "id:<|image|>",
            "audio_token_id": "id:<|audio|>",
            "boi_token_id": "id:<|image>",
            "eoi_token_id": "id:<image|>",
            "audio_config": None,
        },
    ),
    "lfm2_vl": _configured(
        "lfm2_vl",
        {
            "model_type": "lfm2",
            "num_heads": 4,
            "layer_types": ["conv", "full_attention"],
            "block_auto_adjust_ff_dim": False,
            "conv_dim": 64,
            "conv_dim_out": 64,
            "block_dim": 64,
        },
        {"model_type": "siglip2_vision_model", "patch_size": 16, "num_patches": 64},
        {
            "image_token_id": "id:<image>",
            "eos_token_id": "id:<|endoftext|>",
            "projector_hidden_size": 64,
            "downsample_factor": 2,
        },
    ),
}

_PIXTRAL_MARKS: Final = ["[IMG]", "[IMG_BREAK]", "[IMG_END]"]
_IDEFICS_MARKS: Final = [
    *("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
]
_GEMMA4_MARKS: Final = ["<|image|>", "<|image>", "<image|>", "<|audio|>", "<|video|>"]

MARKS: Final[dict[str, list[str]]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_5"), _QWEN_MARKS),
    "mimo_v2": [*_QWEN_MARKS, "<|audio_pad|>"],
    **{family: ["<image>"] for family in ("llava", "llava_next", "paligemma")},
    "gemma3": ["<image_soft_token>", "<start_of_image>", "<end_of_image>"],
    "pixtral": _PIXTRAL_MARKS,
    "mistral3": _PIXTRAL_MARKS,
    "idefics3": _IDEFICS_MARKS,
    "smolvlm": _IDEFICS_MARKS,
    "internvl_chat": ["<image>", "<img>", "</img>", "<IMG_CONTEXT>"],
    "gemma4": _GEMMA4_MARKS,
    "lfm2_vl": ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"],
}

TEMPLATES: Final[dict[str, str]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_5"), _QWEN_IMAGE),
    **dict.fromkeys(MARKS.keys() - {"qwen2_vl", "qwen2_5_vl", "qwen3_5"}, "<image>"),
    "mimo_v2": _QWEN_IMAGE,
    "gemma3": "<start_of_image>",
    "pixtral": "[IMG]",
    "mistral3": "[IMG]",
    "gemma4": "<|image|>",
}
"""What stands in the prompt for a picture."""

TOKENIZERS: Final[dict[str, dict[str, str]]] = {
    "gemma3": {
        "image_token": "<image_soft_token>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
    },
    "gemma4": {
        "image_token": "<|image|>",
        "boi_token": "<|image>",
        "eoi_token": "<image|>",
        "audio_token": "<|audio|>",
        "video_token": "<|video|>",
    },
}
"""Marks that a family's tokenizer knows by a name of their own."""


def _pictures(kind: str, **settings: object) -> dict[str, Any]:
    return {"preprocessor_config.json": {"image_processor_type": kind, **settings}}


def _processor(name: str, **settings: object) -> dict[str, Any]:
    return {"processor_config.json": {"processor_class": name, **settings}}


_SQUARE: Final = {"height": 56, "width": 56}
_PIXTRAL: Final = _pictures("PixtralImageProcessor", size={"longest_edge": 112}, patch_size=14)
_TILES: Final = {
    "size": {"longest_edge": 112},
    "max_image_size": {"longest_edge": 56},
    "do_image_splitting": True,
    **_SIGLIP,
}

PROCESSORS: Final[dict[str, dict[str, Any]]] = {
    "qwen2_vl": _qwen_processor(14, "Qwen2VLProcessor"),
    "qwen2_5_vl": _qwen_processor(14, "Qwen2_5_VLProcessor"),
    "qwen3_5": _qwen_processor(16, "Qwen3VLProcessor"),
    "mimo_v2": _qwen_processor(16, "MiMoV2Processor"),
    "llava": {
        **_pictures("CLIPImageProcessor", size={"shortest_edge": 56}, crop_size=_SQUARE),
        **_processor(
            "LlavaProcessor",
            patch_size=14,
            num_additional_image_tokens=1,
            vision_feature_select_strategy="default",
        ),
    },
    "llava_next": {
        **_pictures(
            "LlavaNextImageProcessor",
            size={"shortest_edge": 56},
            crop_size=_SQUARE,
            image_grid_pinpoints=[[56, 112], [112, 56], [112, 112]],
        ),
        **_processor(
            "LlavaNextProcessor",
            patch_size=14,
            num_additional_image_tokens=1,
            vision_feature_select_strategy="default",
        ),
    },
    "paligemma": {
        **_pictures("SiglipImageProcessor", size=_SQUARE, image_seq_length=16, **_SIGLIP),
        **_processor("PaliGemmaProcessor", image_seq_length=16),
    },
    "gemma3": {
        **_pictures("Gemma3ImageProcessor", size=_SQUARE, **_SIGLIP),
        **_processor("Gemma3Processor", image_seq_length=16),
    },
    "pixtral": {**_PIXTRAL, **_processor("PixtralProcessor", patch_size=14)},
    "mistral3": {
        **_PIXTRAL,
        **_processor("PixtralProcessor", patch_size=14, spatial_merge_size=2),
    },
    "idefics3": {
        **_pictures("Idefics3ImageProcessor", **_TILES),
        **_processor("Idefics3Processor", image_seq_len=4),
    },
    "smolvlm": {
        **_pictures("SmolVLMImageProcessor", **_TILES),
        **_processor("SmolVLMProcessor", image_seq_len=4),
    },
    "internvl_chat": _pictures("InternVLImageProcessor"),
    "gemma4": _processor(
        "Gemma4Processor",
        image_seq_length=70,
        image_processor={
            "image_processor_type": "Gemma4ImageProcessor",
            "max_soft_tokens": 70,
            "patch_size": 16,
            "pooling_kernel_size": 3,
        },
    ),
    "lfm2_vl": {
        **_pictures("Lfm2VlImageProcessor", max_image_tokens=64, min_image_tokens=16),
        **_processor("Lfm2VlProcessor"),
    },
}
