package configs

import "weir/telemetry"

// telemetrySettings are those of what weir tells about itself: objectives,
// traces, log.
func telemetrySettings(c *Config) []Setting {
	return []Setting{
		{Key: "slo.availability", Flag: "slo-availability",
			Usage:   "share of the requests that are to be answered: without 5xx, and without an error after the first byte",
			binding: bindPercent(&c.SLO.Availability)},
		{Key: "slo.ttft_ms", Flag: "slo-ttft-ms",
			Usage:   "target for the time to first token, a bound of its histogram's buckets",
			binding: bindMilliseconds(&c.SLO.FirstToken.Target, 1, 2_560_000)},
		{Key: "slo.ttft", Flag: "slo-ttft", Usage: "share of the first tokens that are to come within the target",
			binding: bindPercent(&c.SLO.FirstToken.Share)},
		{Key: "slo.itl_ms", Flag: "slo-itl-ms",
			Usage:   "target for the inter-token latency, a bound of its histogram's buckets",
			binding: bindMilliseconds(&c.SLO.InterToken.Target, 1, 80_000)},
		{Key: "slo.itl", Flag: "slo-itl", Usage: "share of the further tokens that are to come within the target",
			binding: bindPercent(&c.SLO.InterToken.Share)},
		{Key: "slo.streams", Flag: "slo-streams",
			Usage:   "share of the streams that are to reach their end, those that clients leave not counted",
			binding: bindPercent(&c.SLO.Streams)},

		{Key: "trace.otlp_endpoint", Flag: "otlp-endpoint",
			Usage:   "collector that takes traces as OTLP over HTTP, such as http://127.0.0.1:4318; empty is none",
			binding: bindText(&c.Trace.Endpoint, "a URL, or nothing", anyText)},
		{Key: "trace.sample_ratio", Flag: "trace-sample-ratio",
			Usage: "share of the requests that are traced, where the caller has not decided; those that fail or miss a target " +
				"(slo) are traced all the same",
			binding: bindRatio(&c.Trace.SampleRatio)},

		{Key: "log.level", Flag: "log-level", Usage: "least severe level of messages that are logged",
			binding: bindChoice(&c.Log.Level, telemetry.LogLevels)},
		{Key: "log.format", Flag: "log-format", Usage: "format of the log; auto is console on a terminal and json elsewhere",
			binding: bindChoice(&c.Log.Format, telemetry.LogFormats)},
		{Key: "log.access_per_second", Flag: "log-access-per-second",
			Usage:   "requests per second that get a line in the log at level info, and as many more that failed; 0 is none",
			binding: bindInt(&c.Log.AccessPerSecond, 0, 1_000_000, "")},
	}
}
