"""`scaled_dot_product_attention` with the signature of `torch.nn.functional`."""

from __future__ import annotations

import torch

from generated.torch.attention import attention, attention_lean
from generated.torch.attention_biased import attention_biased
from generated.torch.attention_grouped import attention_grouped
from generated.torch.attention_masked import attention_masked
from generated.torch.attention_scaled import attention_scaled
from gradproof.torch.axes import common_leading, grouped
from gradproof.torch.refusal import refuse, refuse_others

__all__ = ["scaled_dot_product_attention"]

NAME = "scaled_dot_product_attention"
LEAN_FROM = 4096  # keys; from here on the probabilities are computed again in the backward pass and not kept


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """softmax(query key^T scale + attn_mask) value, over the last axis of the scores; as in torch.nn.functional.

    Shapes: query (..., T_q, d_k), key (..., T_k, d_k), value (..., T_k, d_v), attn_mask (..., T_q, T_k); leading
    dimensions are broadcast. A mask of truth values selects keys, one of numbers is added to the scores. A row without
    a key is 0.

    Raises:
        NotImplementedError: there is dropout, or a combination of arguments that no kernel is derived for.
        ValueError: shapes do not fit, or both a mask and is_causal are given.
    """
    refuse_others(NAME, "use", dropout_p=(dropout_p, 0.0))
    if attn_mask is not None and is_causal:
        raise ValueError(f"{NAME}: expected attn_mask or is_causal=True, found both")
    if enable_gqa:
        refuse_others(NAME, "with enable_gqa=True use", attn_mask=(attn_mask, None), scale=(scale, None))
        heads = grouped(query, key.shape[-3])
        return attention_grouped(heads, key, value, causal=is_causal).flatten(-4, -3)
    leading = common_leading(query, key, value)
    query, key, value = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in (query, key, value))
    pairs = (*leading, query.shape[-2], key.shape[-2])
    if attn_mask is not None and attn_mask.is_floating_point():
        if scale is not None:
            raise refuse(NAME, "scale", scale, "with an attn_mask of numbers use scale=None, 1/sqrt(d_k)")
        return attention_biased(query, key, value, attn_mask.expand(pairs))
    if scale is not None:
        mask = query.new_ones((), dtype=torch.uint8) if attn_mask is None else attn_mask
        return attention_scaled(query, key, value, mask.expand(pairs), scale=scale, causal=is_causal)
    if attn_mask is not None:
        query, key, value = (tensor.unsqueeze(-3) for tensor in (query, key, value))
        return attention_masked(query, key, value, attn_mask.expand(pairs)).squeeze(-3)
    chosen = attention if key.shape[-2] < LEAN_FROM else attention_lean
    return chosen(query, key, value, causal=is_causal)
