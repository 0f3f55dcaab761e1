# mypy: ignore-errors
"""Settings of torch that a program asks for: the answer is right, also when they have changed."""

import pytest
import torch

from .scenarios import Scenarios, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_settings(play, graphs) -> None:
    play_scenario(play, graphs)


@scenario(graphs=8)
def settings_that_are_asked_for(compile):
    @compile
    def f(x):
        return (
            x + 1,
            torch.get_float32_matmul_precision(),
            torch.backends.cuda.flash_sdp_enabled(),
            torch.get_autocast_dtype("cpu"),
            torch.is_autocast_cache_enabled(),
            str(torch.get_default_device()),
            torch.get_deterministic_debug_mode(),
            torch.is_warn_always_enabled(),
        )

    yield f(x())
    yield f(x())
    changes = (
        (torch.set_float32_matmul_precision, "high", "highest"),
        (torch.backends.cuda.enable_flash_sdp, False, True),
        (lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16),
        (torch.set_autocast_cache_enabled, False, True),
        (torch.set_default_device, "meta", None),
        (torch.set_deterministic_debug_mode, 1, 0),
        (torch.set_warn_always, True, False),
    )
    for setter, value, before in changes:
        setter(value)
        try:
            told = f(x())
            yield told[1:]
        finally:
            setter(before)
    yield f(x())


@scenario(graphs=2)
def autocast_without_a_dtype(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", cache_enabled=False):
            inside = torch.is_autocast_cache_enabled()
            return torch.outer(x, x) @ x[:, None], inside

    yield f(x())
    yield f(x())
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        yield f(x())
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    yield f(x())
