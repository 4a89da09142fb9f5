"""Scrapy at its best for broad crawls: SEED SECONDS [DELAY] [--own-frontier].

Its own advice (docs, "Broad Crawls"), and beyond it: links by lxml with a set of our
own, so only new URLs become requests; uvloop; 100 requests; no storage, and no
middleware or extension that this crawl does not need.

With --own-frontier URLs wait as strings in a deque of the spider's, and become
requests only when there is room for one. Scrapy's scheduler, and with it its
resumable queues, its priorities and its delays in good order, is then not used:
Scrapy is a downloader. Few do that; the row shows how much there is to gain.
"""

import json
import sys
from collections import deque

import scrapy
from links import Links
from scrapy.crawler import CrawlerProcess

words = [word for word in sys.argv[1:] if not word.startswith("--")]
seed, seconds = words[0], float(words[1])
delay = float(words[2]) if len(words) > 2 else 0.0
own_frontier = "--own-frontier" in sys.argv

ROOM = 200  # requests handed to Scrapy at a time: twice what it may have under way


class Tuned(scrapy.Spider):
    name = "tuned"
    start_urls = (seed,)
    pages = 0

    def __init__(self):
        super().__init__()
        self.links = Links(seed)

    def parse(self, response):
        for url in self.new_links(response):
            yield scrapy.Request(url, dont_filter=True)

    def new_links(self, response):
        if response.status != 200 or not response.body:
            return ()
        self.pages += 1
        return self.links.new(response.body, response.url)


class OwnFrontier(Tuned):
    name = "own-frontier"
    out = 1

    def __init__(self):
        super().__init__()
        self.waiting = deque()

    def parse(self, response):
        self.waiting.extend(self.new_links(response))
        yield from self.more()

    def failed(self, failure):
        yield from self.more()

    def more(self):
        self.out -= 1
        while self.waiting and self.out < ROOM:
            self.out += 1
            yield scrapy.Request(self.waiting.popleft(), dont_filter=True, errback=self.failed)


UNNEEDED = {
    "SPIDER_MIDDLEWARES": [
        "scrapy.spidermiddlewares.referer.RefererMiddleware",
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware",
        "scrapy.spidermiddlewares.depth.DepthMiddleware",
    ],
    "DOWNLOADER_MIDDLEWARES": [
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware",
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware",
        "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware",
        "scrapy.downloadermiddlewares.stats.DownloaderStats",
    ],
    "EXTENSIONS": [
        "scrapy.extensions.corestats.CoreStats",
        "scrapy.extensions.logstats.LogStats",
        "scrapy.extensions.memusage.MemoryUsage",
    ],
}
settings = {
    **{kind: dict.fromkeys(names) for kind, names in UNNEEDED.items()},
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    "CLOSESPIDER_TIMEOUT": seconds,
    "CONCURRENT_ITEMS": 1,  # it starts this many tasks for every page, items or not
    "CONCURRENT_REQUESTS": 1000 if delay else 100,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1 if delay else 8,
    "COOKIES_ENABLED": False,
    "DNSCACHE_ENABLED": True,
    "DOWNLOAD_DELAY": delay,
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "HTTPCACHE_ENABLED": False,
    "LOG_ENABLED": False,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "RETRY_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "TELNETCONSOLE_ENABLED": False,
}
if delay:
    settings["SCHEDULER_PRIORITY_QUEUE"] = "scrapy.pqueues.DownloaderAwarePriorityQueue"
process = CrawlerProcess(settings)
crawler = process.create_crawler(OwnFrontier if own_frontier else Tuned)
process.crawl(crawler)
process.start()
print(json.dumps({"pages": crawler.spider.pages}))
