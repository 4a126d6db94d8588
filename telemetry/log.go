// Package telemetry is how weir reports on itself: structured logs through
// zap and metrics through a Prometheus registry of its own. It imports no
// other package of weir; the parts expose counters and hooks, and
// internal/server joins them to the methods and snapshot functions here.
//
// Metric names, labels and buckets are those of vLLM wherever vLLM has the
// signal, so that its dashboards, alerts and cluster routers work unchanged;
// names that begin with weir_ exist only for what vLLM does not publish.
package telemetry

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogLevels and LogFormats are the accepted values of LogConfig, in the order
// in which help texts list them.
var (
	LogLevels  = []string{"debug", "info", "warn", "error"}
	LogFormats = []string{"auto", "console", "json"}
)

// LogConfig is the logger's part of the configuration.
type LogConfig struct {
	Level  string // one of LogLevels; the least severe level written
	Format string // one of LogFormats; auto is console on a terminal, json elsewhere

	AccessPerSecond int // lines about requests, at level info; 0 is none
}

// DefaultLogConfig writes info and above in the form that suits the output.
func DefaultLogConfig() LogConfig {
	return LogConfig{Level: "info", Format: "auto", AccessPerSecond: 10}
}

// NewLogger returns a logger that writes to w; terminal says whether a person
// reads it. The logger never samples and never exits the process. Callers pass
// counts, ids and durations, never the text of a request. Changing the level changes
// what the logger writes from then on.
func NewLogger(w io.Writer, terminal bool, c LogConfig) (*zap.Logger, zap.AtomicLevel, error) {
	severity, err := ParseLogLevel(c.Level)
	if err != nil {
		return nil, zap.AtomicLevel{}, err
	}
	encoder, err := logEncoder(c.Format, terminal)
	if err != nil {
		return nil, zap.AtomicLevel{}, err
	}
	level := zap.NewAtomicLevelAt(severity)
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)
	return zap.New(core, zap.ErrorOutput(zapcore.Lock(zapcore.AddSync(w)))), level, nil
}

// ParseLogLevel takes one of LogLevels.
func ParseLogLevel(name string) (zapcore.Level, error) {
	if !slices.Contains(LogLevels, name) {
		return 0, fmt.Errorf("log level %q is unknown; use one of %s", name, strings.Join(LogLevels, ", "))
	}
	return zapcore.ParseLevel(name)
}

func logEncoder(format string, terminal bool) (zapcore.Encoder, error) {
	switch format {
	case "auto":
		if terminal {
			return consoleEncoder(), nil
		}
		return jsonEncoder(), nil
	case "console":
		return consoleEncoder(), nil
	case "json":
		return jsonEncoder(), nil
	}
	return nil, fmt.Errorf("log format %q is unknown; use one of %s", format, strings.Join(LogFormats, ", "))
}

// consoleEncoder writes lines for people: the time of day, no caller, no stack.
func consoleEncoder() zapcore.Encoder {
	return zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message",
		EncodeTime:       zapcore.TimeEncoderOfLayout("15:04:05.000"),
		EncodeLevel:      zapcore.CapitalLevelEncoder,
		EncodeDuration:   zapcore.StringDurationEncoder,
		ConsoleSeparator: "  ",
	})
}

// jsonEncoder writes lines for log collectors: one object each, durations in seconds.
func jsonEncoder() zapcore.Encoder {
	return zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "time", LevelKey: "level", NameKey: "logger", MessageKey: "message", StacktraceKey: "stack",
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.SecondsDurationEncoder,
		LineEnding:     zapcore.DefaultLineEnding,
	})
}
