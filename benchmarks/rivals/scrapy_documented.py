"""Scrapy as its documentation shows it: a CrawlSpider that follows every link. SEED SECONDS [DELAY]."""

import json
import sys

from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

seed, seconds = sys.argv[1], float(sys.argv[2])
delay = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0


class Documented(CrawlSpider):
    name = "documented"
    start_urls = (seed,)
    rules = (Rule(LinkExtractor(), callback="parse_item", follow=True),)

    def parse_item(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}


settings = {"LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False, "CLOSESPIDER_TIMEOUT": seconds}
if delay:
    # What its documentation says about being polite, and exactly the delay, not 0.5 to 1.5 times it.
    settings |= {
        "DOWNLOAD_DELAY": delay,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "CONCURRENT_REQUESTS": 1000,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    }
process = CrawlerProcess(settings)
crawler = process.create_crawler(Documented)
process.crawl(crawler)
process.start()
print(json.dumps({"pages": crawler.stats.get_value("response_received_count")}))
