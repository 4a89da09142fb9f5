"""User-supplied functions (plug-ins) and their guarded execution.

    extract   rows of a parsed page                 runs in the workers
    reader    text and links of a MIME type         runs in the workers
    admit     filter for links                      runs in the workers
    sign      headers of a request                  runs in the fetching process
    policy    order of hosts                        `policy.distribution`

Each is named `package.module:name` (`import_string`) in the section `[plugins]` of
`fieldmouse.toml`, so that worker processes and a later resume load the same function.
`page.py` defines their arguments; a plug-in may modify these without side effects.
`plugins/runner.py` calls them: a plug-in that raises anything or takes too long costs only the
result of that call and is named in an error; it never stops the crawl. Reading a crawl
directory loads no plug-ins.
"""

from __future__ import annotations
