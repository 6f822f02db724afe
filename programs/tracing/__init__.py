"""Telemetry of questions: spans of OpenTelemetry."""
