"""One self-contained HTML page: a cluster's history, the findings of an audit, and the effect of a plan.

    report            directories and files to a page; needs no Spark
    measures          Arrow tables to the few rows that are drawn
    formatting        numbers, sizes, times and durations as text
    charts            rows to Altair charts, as Vega-Lite specifications
    vega              the JavaScript that draws them
    page              sections, tables and charts to HTML, with the Jinja template page.html, page.css and page.js
    chart_parts       axes, colors and zoom that charts share
    broker_chart      the chart of brokers before and after a plan
    history_sections  the sections of a history
    audit_section     the section of an audit
    plan_section      the section of a plan

The page fetches nothing, and its security policy forbids it. Each chart has tooltips and a time axis that zooms; a
chart or table that has nothing to show says why.
"""
