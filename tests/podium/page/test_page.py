"""The page as a person sees it, in a headless browser, against a running podium and real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from podium.page.server import PageServer
from podium.wiring import Service
from simulator.apiserver import ApiServer
from tests.fixtures_apiserver import node, pod
from tests.podium.harness import podium, until
from tests.podium.page.chromium import Tab

pytestmark = pytest.mark.looptime(False)

LIVE = "document.querySelector('#link')?.innerText.trim() === 'live'"


def ours(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    """A pod that names podium."""
    made = pod(name, schedulerName="podium", **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def zoned(name: str, zone: str, **spec: Any) -> dict[str, Any]:
    """A node of a zone."""
    made = node(name, **spec)
    made["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
    return made


@asynccontextmanager
async def page(server: ApiServer, tab: Tab) -> AsyncIterator[tuple[Service, PageServer]]:
    """A service with its page, open in the tab."""
    async with podium(server) as service, PageServer(service) as served:
        await tab.goto(served.url)
        yield service, served
        await tab.goto("about:blank")


async def figure(tab: Tab, name: str) -> str:
    """The number under a name."""
    found = f"[...document.querySelectorAll('#figures > div')].find((e) => e.innerText.includes({name!r}))"
    return str(await tab.run(f"{found}?.querySelector('b').innerText"))


async def test_the_page_shows_nodes_the_queue_with_reasons_and_decisions(api_server: ApiServer, tab: Tab) -> None:
    for each in (zoned("n1", "zone-a"), zoned("n2", "zone-b", unschedulable=True), ours("web"), ours("large", "9")):
        api_server.create(each)
    api_server.create(ours("held", schedulingGates=[{"name": "example.com/gate"}]))
    async with page(api_server, tab) as (service, _):
        await until(lambda: len(service.scheduler.decisions) >= 2, "two decisions")
        await tab.until(LIVE)
        await tab.until("document.querySelectorAll('#decisions li:not(.empty)').length === 2")
        assert await figure(tab, "Nodes") == "2"
        assert await figure(tab, "Pending") == "2"
        queue = await tab.text(".queue")
        assert "default/large" in queue
        assert "1 Insufficient cpu · 1 node(s) were unschedulable" in queue
        assert "waiting for scheduling gates: [example.com/gate]" in queue
        assert "web" in await tab.text("#decisions")
        assert await tab.run("document.querySelector('#map').height") > 50
        assert "cordoned" in await tab.text("#legend")
        await tab.until("document.querySelector('#chart-pending path.line').getAttribute('d').length > 5")


async def test_a_change_in_the_cluster_is_seen_without_a_reload(api_server: ApiServer, tab: Tab) -> None:
    api_server.create(zoned("n1", "zone-a", cpu="1"))
    async with page(api_server, tab):
        await tab.until(LIVE)
        await tab.until("document.querySelector('.queue').innerText.includes('No pod is pending')")
        await tab.run("window.sameDocument = true")
        api_server.create(ours("large", "4"))
        await tab.until("document.querySelector('#pools').innerText.includes('default/large')")
        assert "1 Insufficient cpu" in await tab.text("#pools")
        api_server.create(zoned("n2", "zone-a", cpu="8"))
        await tab.until("document.querySelector('.queue').innerText.includes('No pod is pending')")
        await tab.until("document.querySelector('#decisions').innerText.includes('n2')")
        assert await figure(tab, "Nodes") == "2"
        assert await tab.run("window.sameDocument") is True


async def test_a_click_on_a_pending_pod_explains_it_and_follows_what_becomes_of_it(
    api_server: ApiServer, tab: Tab
) -> None:
    api_server.create(zoned("n1", "zone-a", cpu="1"))
    api_server.create(ours("large", "4"))
    async with page(api_server, tab):
        await tab.until("document.querySelector('.pool li a')")
        await tab.click(".pool li a")
        await tab.until("document.querySelector('#panel .verdict')")
        assert await tab.text("#panel .verdict") == (
            "It does not fit on the only node: 4 CPU requested, more than n1 has (1)."
        )
        assert await tab.text("#panel-title") == "default/large"
        assert await tab.run("document.activeElement.id") == "panel-title"
        api_server.create(zoned("n2", "zone-a", cpu="8"))
        await tab.until("document.querySelector('#panel .verdict').innerText.startsWith('It is on n2')")
        await tab.key("Escape", 27)
        await tab.until("document.querySelector('#panel').hidden && location.hash === ''")


async def test_keys_lead_from_the_map_to_a_node_and_to_the_explanation_of_a_pod_on_it(
    api_server: ApiServer, tab: Tab
) -> None:
    for each in (
        zoned("n1", "zone-a"),
        zoned("n2", "zone-b"),
        ours("web", nodeSelector={"kubernetes.io/hostname": "n2"}),
    ):
        api_server.create(each)
    async with page(api_server, tab) as (service, _):
        await until(lambda: bool(service.cache.pods), "web is placed")
        await tab.until(LIVE)
        await tab.until("document.querySelector('#map').height > 50")
        for _ in range(20):
            await tab.key("Tab", 9)
            if await tab.run("document.activeElement.id") == "map":
                break
        await tab.key("ArrowDown", 40)
        await tab.until("document.querySelector('#map-voice').innerText.startsWith('n2, zone-b')")
        await tab.until("document.querySelector('#tip').innerText.includes('default/web')")
        await tab.key("Enter", 13)
        await tab.until("document.querySelector('#panel .pods a')")
        assert await tab.text("#panel-title") == "n2"
        await tab.run("document.querySelector('#panel .pods a').focus()")
        await tab.key("Enter", 13)
        await tab.until("document.querySelector('#panel .verdict')?.innerText.startsWith('It is on n2')")
        assert await tab.text("#panel-title") == "default/web"


async def test_the_mouse_over_a_node_shows_its_pods(api_server: ApiServer, tab: Tab) -> None:
    api_server.create(zoned("n1", "zone-a", cpu="4"))
    api_server.create(ours("web", "1"))
    async with page(api_server, tab) as (service, _):
        await until(lambda: bool(service.cache.pods), "web is placed")
        await tab.until(LIVE)
        x, y = await tab.until(
            "(b => b.height > 50 && [b.x + 20, b.y + 50])(document.querySelector('#map').getBoundingClientRect())"
        )
        await tab.hover(x, y)
        await tab.until("document.querySelector('#tip').innerText.includes('default/web')")
        assert "1 of 4" in await tab.text("#tip")
        assert "25 %" in await tab.text("#tip")
        await tab.click_at(x, y)
        await tab.until("location.hash === '#/nodes/n1'")


async def test_an_empty_cluster_says_so(api_server: ApiServer, tab: Tab) -> None:
    async with page(api_server, tab):
        await tab.until(LIVE)
        await tab.until("document.querySelector('#map-empty').innerText === 'The cluster has no nodes yet.'")
        assert "No pod is pending." in await tab.text("#pools")
        assert "No decision yet." in await tab.text("#decisions")
        assert await figure(tab, "Nodes") == "0"


async def test_a_lost_connection_is_shown_and_comes_back_with_what_was_missed(api_server: ApiServer, tab: Tab) -> None:
    api_server.create(zoned("n1", "zone-a"))
    async with podium(api_server) as service:
        async with PageServer(service) as first:
            await tab.goto(first.url)
            await tab.until(LIVE)
        await tab.until("document.body.classList.contains('stale')")
        assert (await tab.text("#lost")).startswith("The connection is lost. This is the state of")
        assert "connection lost" in await tab.text("#link")
        tab.problems.clear()  # the browser reports what it could not reach
        api_server.create(zoned("n2", "zone-a"))
        await until(lambda: "n2" in service.cache.nodes, "n2 is known")
        async with PageServer(service, port=first.port):
            await tab.until(LIVE)
            await tab.until("!document.body.classList.contains('stale')")
            assert await figure(tab, "Nodes") == "2"
            assert await tab.run("document.querySelector('#lost').hidden") is True
            tab.problems.clear()
            await tab.goto("about:blank")


async def test_the_theme_follows_the_system_and_the_button_overrides_it(api_server: ApiServer, tab: Tab) -> None:
    back = "document.body && getComputedStyle(document.body).backgroundColor"
    await tab.scheme("dark")
    async with page(api_server, tab):
        await tab.until(LIVE)
        dark = await tab.run(back)
        await tab.click("#theme")
        light = await tab.run(back)
        assert (light, dark) == ("rgb(245, 246, 247)", "rgb(18, 23, 27)")
        await tab.run("window.before = true")
        await tab.run("location.reload()")
        await tab.until(f"!window.before && document.readyState === 'complete' && {LIVE}")
        assert await tab.run(back) == light
        await tab.run("localStorage.clear()")


async def test_a_phone_scrolls_in_one_direction_only_and_taps_work(api_server: ApiServer, tab: Tab) -> None:
    api_server.create(zoned("a-node-with-a-name-that-is-too-long-for-a-telephone.example.com", "zone-a"))
    api_server.create(ours("a-pod-with-a-name-that-is-rather-long-for-a-telephone-0123456789", "9"))
    await tab.resize(375, 667, phone=True)
    async with page(api_server, tab):
        await tab.until("document.querySelector('.pool li a')")
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")
        await tab.click(".pool li a")
        await tab.until("document.querySelector('#panel .verdict')")
        assert await tab.run("document.querySelector('#panel').getBoundingClientRect().width === innerWidth")
        assert await tab.run("document.documentElement.scrollWidth <= innerWidth")


async def test_nothing_is_asked_of_anybody_else_and_what_a_name_says_is_not_markup(
    api_server: ApiServer, tab: Tab
) -> None:
    made = zoned("n1", "zone-a")
    made["spec"]["taints"] = [{"key": "x", "value": "<img src=x onerror=alert(1)>", "effect": "NoSchedule"}]
    api_server.store.create("nodes", made) if hasattr(api_server.store, "create") else api_server.create(
        zoned("n1", "a")
    )
    async with page(api_server, tab) as (_, served):
        await tab.until(LIVE)
        await tab.run("location.hash = '#/pods/default/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E'")
        await tab.until("document.querySelector('#panel .verdict')")
        assert "<img src=x" in await tab.text("#panel-title")
        assert await tab.run("document.querySelectorAll('#panel img, #tip img').length") == 0
        assert {url for url in tab.requests if not url.startswith((served.url, "about:"))} == set()
        tab.problems.clear()  # a pod that is not there is a 404, which the browser reports


async def test_of_five_thousand_nodes_only_those_that_change_are_drawn_again(api_server: ApiServer, tab: Tab) -> None:
    for i in range(5000):
        api_server.create(zoned(f"node-{i:04}", f"zone-{i % 3}"))
    async with page(api_server, tab):
        await tab.until(LIVE)
        await tab.until("document.querySelector('#figures b').innerText === '5,000'")
        await tab.until("document.querySelector('#map').height > 300")
        await tab.run(COUNT_FILLS)
        drawn = []
        for i in range(1, 7):
            await tab.run("window.fills = 0")
            api_server.create(ours(f"web-{i}"))
            await tab.until(f"[...document.querySelectorAll('#figures b')][1].innerText === '{i}'")
            drawn.append(await tab.run("window.fills"))
        # A browser that was late is sent everything, and draws it; one node may be drawn with what is around it.
        assert any(0 < fills <= 20 for fills in drawn), drawn
        assert await tab.run("document.querySelectorAll('*').length") < 1500
        await tab.run("window.fills = 0")
        await tab.click("[data-measure=pods]")
        await tab.until("window.fills >= 5000")


COUNT_FILLS = """(() => {
  window.fills = 0;
  const fill = CanvasRenderingContext2D.prototype.fill;
  CanvasRenderingContext2D.prototype.fill = function (...path) {
    window.fills += 1;
    return fill.apply(this, path);
  };
})()"""
