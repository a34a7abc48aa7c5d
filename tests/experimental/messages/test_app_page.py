"""The app of a message game's run in a browser."""

import pytest
from playwright.sync_api import expect

from pvg_hf.experimental.messages.run import play_messages
from tests.support.message_games import small_recipe

pytestmark = pytest.mark.browser


def test_a_message_game_is_shown(serve, open_page, tmp_path):
    folder = play_messages(small_recipe(f"output_dir={tmp_path}", "name=small"))
    url, _ = serve(folder.root)
    page = open_page(url)
    shown = page.locator("#message-game")
    expect(shown).to_contain_text("Accuracy with the prover's messages")
    expect(shown.locator("table").first).to_contain_text("soundness attack")
    expect(shown.locator("img").first).to_be_visible()


def test_a_game_that_is_not_judged_yet_says_so(serve, open_page, tmp_path):
    folder = play_messages(small_recipe(f"output_dir={tmp_path}", "name=small", "controls=[]"))
    folder.judgement.unlink()
    url, _ = serve(folder.root)
    expect(open_page(url).locator("#message-game")).to_contain_text("no judged message game")
