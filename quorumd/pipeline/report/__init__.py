"""One self-contained HTML page: a cluster's history, the findings of an audit, and the effect of a plan.

    report            renders directories and files as a page, without Spark
    measures          reduces Arrow tables to the few rows that are drawn
    formatting        numbers, sizes, times and durations as text
    charts            Altair charts of these rows, as Vega-Lite specifications
    vega              the JavaScript that draws the charts
    page              renders sections, tables and charts as HTML: Jinja template page.html, page.css and page.js
    chart_parts       axes, colors and zoom that charts share
    broker_chart      the chart of brokers before and after a plan
    history_sections  the sections of a history
    audit_section     the section of an audit
    plan_section      the section of a plan

The page fetches nothing: its Content-Security-Policy forbids it. Each chart has tooltips, and charts over time have a
time axis that zooms. In place of a chart or table without data, the page gives the reason.
"""
