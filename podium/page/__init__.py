"""The page: a running podium to look at, in a browser, live and read-only.

`server` serves it, `hub` keeps what it shows and tells the browsers of changes, `rows` are the shapes of what is sent,
`samples` what is drawn over time, `static/` the HTML, CSS and JavaScript modules as they are. docs/page.md is its
manual. Used by the commands; nothing of it runs on the way of a pod.
"""
