"""The app's colours and fonts."""

import gradio as gr

_BLUE, _DARK_BLUE = "#005a8f", "#7cc4f5"


def make_theme() -> gr.themes.Base:
    """Create the theme: system fonts, so that none is downloaded, and a contrast of at least 4.5 : 1 for texts."""
    theme = gr.themes.Default(
        primary_hue="blue",
        neutral_hue="slate",
        font=["system-ui", "-apple-system", "Segoe UI", "sans-serif"],
        font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"],
    )
    return theme.set(
        button_primary_background_fill=_BLUE,
        button_primary_background_fill_dark=_BLUE,
        button_primary_background_fill_hover="#00466f",
        button_primary_background_fill_hover_dark="#00466f",
        button_primary_text_color="white",
        body_text_color_subdued="#4d5761",
        body_text_color_subdued_dark="#b4bec8",
        block_label_text_color="#374151",
        block_label_text_color_dark="#d1d5db",
        block_title_text_color="#374151",
        block_title_text_color_dark="#d1d5db",
        input_placeholder_color="#5b6570",
        input_placeholder_color_dark="#a3adb7",
        link_text_color=_BLUE,
        link_text_color_dark=_DARK_BLUE,
    )
