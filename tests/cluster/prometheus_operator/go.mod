// Pins the Prometheus Operator, whose definitions of PodMonitor and ServiceMonitor the tests put into an API server.
module prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
