"""The page of the server: what is shipped is what its sources build, and every view works in a browser."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import regard
from regard.config import load as read_config
from regard.tasks import train
from task_cases import TASK_CASES, configured

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "explorer"
PAGE = ROOT / "src/regard/serve/page/index.html"
AXE = SOURCES / "node_modules/axe-core/axe.min.js"
WIDTHS = (390, 1280, 2560)
FURTHER = {
    "known": ("forecasting", {"data.known": ["b"]}),
    "paced": ("text_to_speech", {"model.attention.transition_agent": True}),
}
"""Models beside one of each task, by name: the task, and what is different."""
STEPS = {"text_to_text": 60, "documents": 60, "labelling": 60, "known": 60}
"""Training steps of the models whose outputs the tests look at; others have 4."""


def digest_of_sources() -> str:
    """As `explorer/build.mjs` computes it."""
    digest = hashlib.sha256()
    names = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"]
    names += [path.relative_to(SOURCES).as_posix() for path in (SOURCES / "src").rglob("*") if path.is_file()]
    for name in sorted(names):
        content = (SOURCES / name).read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def test_the_shipped_page_is_built_from_the_sources() -> None:
    (built,) = re.findall("<!-- sources ([0-9a-f]{64}) -->", PAGE.read_text(encoding="utf-8")[:200])
    assert built == digest_of_sources(), "explorer/ has changed since the page was built; run `make explorer`."


def test_the_page_is_small_and_loads_nothing_from_elsewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.encode()) <= 300_000
    assert {*re.findall(r"https?://[^\"'`\s)]+", text)} <= {
        *("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"),
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/XML/1998/namespace",
        "http://www.w3.org/2000/xmlns/",
    }
    (policy,) = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        code = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{code}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "connect-src 'self'" in policy


def packed(text: str) -> str:
    """As the page puts tables and strokes into links."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.urlsafe_b64encode(compressor.compress(text.encode()) + compressor.flush()).decode().rstrip("=")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small trained model of each task in `runs`, and its data in a folder of its name."""
    folder = tmp_path_factory.mktemp("explorer")
    (folder / "runs").mkdir()
    for task in TASK_CASES:
        steps = STEPS.get(task, 4)
        path = configured(task, folder / task, max_steps=steps, epochs=steps, validate_every=steps)
        train(read_config(path), folder / "runs" / task)
    for name, (task, overrides) in FURTHER.items():
        steps = STEPS.get(name, 4)
        path = configured(task, folder / task, max_steps=steps, epochs=steps, validate_every=steps)
        train(read_config(path, overrides), folder / "runs" / name)
    return folder


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of `regard serve`."""
    pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
    command = [sys.executable, "-m", "regard", "serve", *arguments, "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"http://[\d.:]+/", line):
                    yield found[0]
                    break
            else:
                raise AssertionError(f"the server ended with status {process.wait()}")
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with served("g2p-en", str(folder / "runs")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    library = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if not Path("/usr/bin/chromium").exists():
        pytest.skip("there is no /usr/bin/chromium")
    with library.sync_playwright() as started:
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, link: str = "", **options: Any) -> Iterator[Any]:
    """A page of the explorer, which in the end has had no error and has asked no other host."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options})
    page, troubles = context.new_page(), list[str]()
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    context.on("request", lambda each: troubles.append(each.url) if not own(each.url, address) else None)
    page.goto(address + link)
    settle(page)
    yield page
    context.close()
    assert troubles == []


def own(url: str, address: str) -> bool:
    return url.startswith((address, "data:", "blob:"))


def settle(page: Any) -> None:
    """Waits until nothing is being computed."""
    page.wait_for_timeout(700)
    for _ in range(600):
        statuses = page.locator("[role=status]").all_inner_texts()
        if not any(re.search("computing|loading|asking", text) for text in statuses):
            return
        page.wait_for_timeout(100)
    raise AssertionError("the page waits for a minute")


def link(model: str, **values: Any) -> str:
    return f"#{quote(model)}?{urlencode(values)}"


def with_known_future(folder: Path) -> str:
    """A table with four rows in which only `b` is known."""
    lines = (folder / "forecasting/test.csv").read_text(encoding="utf-8").splitlines()
    later = [f"2024-01-11 {hour:02}:00,,{0.1 * hour:.1f}" for hour in range(4)]
    return "\n".join([*lines, *later])


def links(folder: Path) -> dict[str, str]:
    """A link of every view."""
    picture = base64.b64encode((folder / "image_to_text/train-1.png").read_bytes()).decode()
    table = packed((folder / "forecasting/test.csv").read_text(encoding="utf-8"))
    strokes = packed(json.dumps([[[40, 30], [40, 150]], [[200, 30], [200, 150]]]))
    return {
        "gallery": "#",
        "text": link("g2p-en", input="attention", tree="all", kept='{"input":"attentive"}'),
        "two models": link("g2p-en", input="read", beside="text_to_text"),
        "documents": link("documents", input="It was a joy. A waste of money.", without="1"),
        "what words do": link("documents", input="It was a joy. A waste of money.", colour="without"),
        "labelling": link("labelling", input="on May 14 or June 2"),
        "samples": link("language_modelling", input="the quick"),
        "continuations": link(
            "language_modelling", input="the quick", method="beam", num_best=2, layer="self.1", head=1
        ),
        "series": link("forecasting", csv=table),
        "known": link("known", csv=packed(with_known_future(folder))),
        "speech": link("text_to_speech", input="see a bee"),
        "pace": link("paced", input="see a bee", pace=2, stop_threshold=0.99),
        "picture": link("image_to_text", by="image", image=picture),
        "handwriting": link("image_to_text", by="strokes", strokes=strokes),
    }


VIEWS = (
    *("gallery", "text", "two models", "documents", "what words do", "labelling", "samples", "continuations"),
    *("series", "known", "speech", "pace", "picture", "handwriting"),
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_no_findings_and_fits_every_width(
    browser: Any, address: str, folder: Path, view: str, scheme: str
) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed; `make explorer` installs it")
    with opened(browser, address, links(folder)[view], color_scheme=scheme) as page:
        assert page.locator(".error").count() == 0
        assert page.locator("li.card" if view == "gallery" else "section.figure").count() > 0
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.wait_for_timeout(300)
        figures = "[...document.querySelectorAll('[role=application], [role=slider]')]"
        assert page.evaluate(f"{figures}.filter(each => each.tabIndex < 0).map(each => each.outerHTML)") == []
        page.evaluate(AXE.read_text(encoding="utf-8"))
        findings = page.evaluate("axe.run()")["violations"]
        assert [each for each in findings if each["impact"] in ("serious", "critical")] == []
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_beam_is_steered_and_its_link_restores_it(browser: Any, address: str) -> None:
    model: Any = regard.load("g2p-en")
    (free,) = model.predict(["attention"])
    prefix = ["AH", "T", "EH", "N", "CH"]
    (forced,) = model.predict(["attention"], constraints=[{"prefix": prefix}])
    with opened(browser, address, link("g2p-en", input="attention")) as page:
        best = page.locator(".outputs tbody tr").first
        assert free.text in best.inner_text()
        page.get_by_role("button", name="Keep this, and see what a change does").click()
        settle(page)
        page.get_by_role("button", name="CH, step 5").click()
        page.get_by_role("button", name="Go on from here").click()
        settle(page)
        shown = best.inner_text()
        assert forced.text in shown
        assert f"{forced.log_probability:.2f}".replace("-", "−") in shown
        assert page.locator(".changed del").inner_text().split() == ["removed:", "SH"]
        assert page.locator(".changed ins").inner_text().split() == ["added:", "CH"]
        url = page.url
    with opened(browser, address, url.removeprefix(address)) as page:
        assert page.locator(".outputs tbody tr").first.inner_text() == shown
        page.get_by_role("button", name="Let it be free").click()
        settle(page)
        assert free.text in page.locator(".outputs tbody tr").first.inner_text()


def test_another_token_is_chosen_and_one_is_forbidden(browser: Any, address: str) -> None:
    with opened(browser, address, link("g2p-en", input="attention")) as page:
        page.get_by_role("group", name="output", exact=True).get_by_role("button").nth(4).click()
        card = page.get_by_role("dialog")
        assert "SH" in card.inner_text()
        card.get_by_role("button", name="CH").click()
        settle(page)
        assert "AH T EH N CH" in page.locator(".outputs tbody tr").first.inner_text()
        page.get_by_role("button", name="Let it be free").click()
        settle(page)
        page.get_by_role("button", name="SH, step 5").click()
        page.get_by_role("button", name="Forbid").click()
        settle(page)
        assert page.get_by_label("does not contain").input_value() == "SH"
        assert "SH" not in page.locator(".outputs tbody").inner_text().split()


def test_the_keyboard_moves_over_tree_and_weights(browser: Any, address: str) -> None:
    with opened(browser, address, link("g2p-en", input="attention")) as page:
        page.locator(".node").first.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        assert "step 3" in page.evaluate("document.activeElement.getAttribute('aria-label')")
        node = page.evaluate("document.activeElement.dataset.node")
        page.keyboard.press("Enter")
        assert page.get_by_role("dialog").is_visible()
        assert page.evaluate("document.activeElement.innerText") == "Go on from here"
        page.keyboard.press("Escape")
        page.wait_for_timeout(100)
        assert page.get_by_role("dialog").count() == 0
        assert page.evaluate("document.activeElement.dataset.node") == node
        page.locator("svg.heat").focus()
        assert page.evaluate("document.activeElement.tagName") == "svg"
        page.keyboard.press("ArrowDown")
        assert page.locator("output.reading").inner_text().startswith("AH ← A 0.99")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.locator("output.reading").inner_text().startswith("T ← T 0.98")


def test_what_is_seen_is_saved(browser: Any, address: str) -> None:
    def saved(name: str) -> bytes:
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        return Path(download.value.path()).read_bytes()

    with opened(browser, address, link("g2p-en", input="attention")) as page:
        tree = json.loads(saved("save The search as JSON"))
        assert tree["link"] == page.url
        assert len(tree["data"]["returned"]) == 3
        picture = ElementTree.fromstring(saved("save The search as SVG"))
        words = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert words.count("CH") == 1
        image = Image.open(io.BytesIO(saved("save Alignment as PNG"))).convert("RGB")
        assert len(image.getcolors(1 << 20)) > 10
        weights = json.loads(saved("save Alignment as JSON"))["data"]["symbols"]
        (prediction,) = regard.load("g2p-en").predict(["attention"])
        assert weights["tokens"] == prediction.tokens


def test_a_word_is_removed_from_a_document(browser: Any, address: str, folder: Path) -> None:
    model = regard.load(folder / "runs/documents", device="cpu")
    text, without = "It was a joy. A waste of money.", "It was a . A waste of money."
    (whole, rest) = model.predict([text, without])
    with opened(browser, address, link("documents", input=text)) as page:
        page.get_by_role("button", name="joy", exact=True).click()
        settle(page)
        row = page.locator(".outputs tbody tr").first.inner_text()
        for prediction in (whole, rest):
            assert f"{100 * prediction.probabilities[whole.labels[0]]:.1f} %" in row
        assert "without=3" in page.url


def test_files_are_uploaded_and_strokes_are_drawn(browser: Any, address: str, folder: Path) -> None:
    table = folder / "forecasting/test.csv"
    with opened(browser, address, "#forecasting") as page:
        page.get_by_label("or a file").set_input_files(table)
        settle(page)
        assert "4 steps" in page.locator("[role=status]").first.inner_text()
        page.get_by_text("Table of the forecast").click()
        rows = page.get_by_role("region", name="Table of the forecast").locator("tbody tr")
        (prediction,) = regard.load(folder / "runs/forecasting", device="cpu").predict([str(table)])
        times = list(csv.reader(rows.all_inner_texts(), delimiter="\t"))
        assert [row[0] for row in times] == prediction.forecasts[0].stamps
        assert float(times[0][1].replace("−", "-")) == pytest.approx(
            float(prediction.forecasts[0].values[0, 0]), rel=1e-4
        )
    with opened(browser, address, "#image_to_text") as page:
        page.get_by_label("picture: choose").set_input_files(folder / "image_to_text/train-1.png")
        settle(page)
        assert page.locator("svg.seen image").count() == 2
    with opened(browser, address, link("image_to_text", by="strokes")) as page:
        box = page.locator(".board").bounding_box()
        for x in (60, 200):
            page.mouse.move(box["x"] + x, box["y"] + 30)
            page.mouse.down()
            page.mouse.move(box["x"] + x, box["y"] + 150, steps=4)
            page.mouse.up()
        settle(page)
        drawn, url = page.locator(".outputs").inner_text(), page.url
    with opened(browser, address, url.removeprefix(address)) as page:
        assert page.locator(".outputs").inner_text() == drawn


def test_speech_is_heard_and_a_line_moves(browser: Any, address: str) -> None:
    with opened(browser, address, "#text_to_speech") as page:
        page.get_by_label("text", exact=True).fill("see a bee")
        page.get_by_role("button", name="Speak").click()
        settle(page)
        assert page.evaluate("document.querySelector('audio').duration") > 0.1
        page.get_by_role("group", name="symbols").get_by_role("button").nth(4).click()
        assert float(page.locator("svg.chart line").get_attribute("x1")) > 0
        before = page.locator("output.reading").inner_text()
        page.evaluate("document.querySelector('audio').play()")
        page.wait_for_timeout(300)
        assert page.locator("output.reading").inner_text() != before


def test_a_voice_speaks_at_another_pace(browser: Any, address: str, folder: Path) -> None:
    model = regard.load(folder / "runs/paced", device="cpu")
    with opened(browser, address, link("paced", input="see a bee", stop_threshold=0.99)) as page:
        page.get_by_text("Settings", exact=True).click()
        page.get_by_label("pace", exact=True).fill("4")
        settle(page)
        shown = page.locator("section.figure").first
        with page.expect_download() as download:
            shown.get_by_role("button", name="save Speech as JSON").click()
        weights = json.loads(Path(download.value.path()).read_text())["data"]["alignment"]
        plain, fast = (
            model.with_decoding(pace=pace, stop_threshold=0.99).predict(["see a bee"], sound=False)[0]
            for pace in (1.0, 4.0)
        )
        assert np.allclose(weights, fast.alignment, atol=1e-4)
        assert not np.allclose(fast.alignment, plain.alignment, atol=1e-4)
    with opened(browser, address, link("text_to_speech", input="see a bee")) as page:
        page.get_by_text("Settings", exact=True).click()
        assert page.get_by_label("pace", exact=True).count() == 0


def test_a_known_input_of_the_future_is_dragged(browser: Any, address: str, folder: Path) -> None:
    with opened(browser, address, links(folder)["known"]) as page:
        before = page.locator("output.reading").inner_text()
        handle = page.get_by_role("slider", name="b, future row 1")
        box = handle.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 40, steps=3)
        page.mouse.up()
        settle(page)
        dragged = page.get_by_label("table (CSV)").input_value()
        assert float(handle.get_attribute("aria-valuenow")) > 0.2
        assert page.locator("output.reading").inner_text() != before
        (folder / "dragged.csv").write_text(dragged)
        (prediction,) = regard.load(folder / "runs/known", device="cpu").predict([str(folder / "dragged.csv")])
        first = float(prediction.forecasts[0].values[0, 0])
        assert f"a {first:.5g}"[:6].replace("-", "−") in page.locator("output.reading").inner_text()
        after = page.locator("output.reading").inner_text()
        handle.press("ArrowDown")
        settle(page)
        assert page.locator("output.reading").inner_text() != after


def test_a_continuation_comes_token_by_token(browser: Any, address: str) -> None:
    with opened(browser, address, link("language_modelling")) as page:
        page.evaluate("""() => {
            window.seen = new Set();
            const look = () => document.querySelectorAll('.continued b').forEach(each => seen.add(each.textContent));
            new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
        }""")
        with page.expect_response("**/v1/predict") as answer:
            page.get_by_label("text", exact=True).fill("the quick")
        assert answer.value.headers["content-type"].startswith("text/event-stream")
        settle(page)
        whole = page.locator(".continued b").inner_text()
        pieces = page.evaluate("[...seen]")
        assert pieces
        assert all(whole.startswith(piece) for piece in pieces)
        page.get_by_role("button", name="Another sample").click()
        settle(page)
        assert "seed=" in page.url


def test_the_trainings_of_models_are_compared(browser: Any, address: str, folder: Path) -> None:
    with opened(browser, address, "#") as page:
        for name in ("forecasting", "known"):
            page.get_by_label(f"compare {name}").check()
        page.locator("section.figure", has_text="Validations of the trainings").wait_for()
        assert page.locator("li.card summary", has_text="Card").count() == len(list((folder / "runs").iterdir())) + 1
        assert page.locator("section.figure", has_text="Validations of the trainings").locator("path").count() == 2
        table = page.locator("section.figure", has_text="Differences")
        assert table.get_by_role("row", name="metrics.").count() > 0
        assert "regard compare" in table.inner_text()


def test_a_token_is_asked_for(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame\n")
    with served("g2p-en", "--token-file", str(tmp_path / "token")) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address + link("g2p-en", input="read"))
        page.get_by_label("token").fill("wrong")
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("The server does not know this token.").wait_for()
        page.get_by_label("token").fill("open-sesame")
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("R IY D").first.wait_for()
        context.close()
