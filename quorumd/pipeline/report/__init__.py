"""One self-contained HTML page: what happened in a cluster, what an audit found, and what a plan makes of it.

    write_report(history, plan, audit, out)     folders and files to a page; without Spark, which would take longer
    measures    pure: Arrow tables to the few rows that are drawn
    axes        pure: ticks of numbers and times, and how numbers are written
    svg         pure: elements as text
    plots       pure: rows to SVG: bars over time, lanes, lines, brokers before and after
    page        sections, tables and plots to HTML, with page.html, page.css and page.js in it

Nothing in the page comes from elsewhere, and nothing of it is fetched when it is opened. Each mark says in a title
what it stands for; each plot that has nothing to show says why.
"""
