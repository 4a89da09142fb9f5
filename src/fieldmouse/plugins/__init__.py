"""The small pieces of code that a user brings along, and how the house lives with them.

    extract   rows of a parsed page                 runs in the workers
    reader    text and links of a MIME type         runs in the workers
    admit     is this link wanted?                  runs in the workers
    sign      headers of a request                  runs beside the robots
    policy    which hosts come first                `policy.distribution`

Each is named `package.module:name` (`fieldmouse.named`) in the section `[plugins]` of
`fieldmouse.toml`, so that a worker process and a later resume can load the same.
`page.py` has what they are given; it is theirs, and changing it changes nothing
of ours. `call.py` is how they are called: one that raises, whatever it raises, or
takes too long costs what it was asked for and is named; it never costs the crawl.
Reading a crawl directory loads none of them.
"""
