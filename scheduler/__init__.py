"""The engine: snapshot, framework, queue, cache, cycles. Knows neither which plugins exist nor who calls it."""
