"""Links between the pages lead somewhere."""

import re

import pytest

from tests.docs.pages import ROOT, all_pages, name_of

LINK = re.compile(
    r"(?<!\!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\""
)
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


def links(page):
    text = FENCE.sub("", page.read_text())
    return [next(filter(None, found)) for found in LINK.findall(text)]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.replace("`", "")) for heading in headings]
    return {heading.strip().lower().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_every_link_leads_somewhere(page):
    for link in links(page):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the project"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        local = [link.partition("#")[0] for link in links(page) if "://" not in link]
        waiting += [(page.parent / link).resolve() for link in local if link]

    pages = {page for page in all_pages() if page.parent.name != "figures"}
    assert pages - reached == set()


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_no_page_names_this_machine(page):
    text = page.read_text()
    assert not re.search(r"/(?:home|root|Users|work)/", text)
    assert not re.search(r"--(extra-)?index-url|https?://\S+/simple\b", text)
