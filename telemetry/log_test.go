package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLoggerFormats(t *testing.T) {
	for _, c := range []struct {
		name     string
		format   string
		terminal bool
		json     bool
	}{
		{"auto on a terminal", "auto", true, false},
		{"auto elsewhere", "auto", false, true},
		{"console asked", "console", false, false},
		{"json asked", "json", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			log, _, err := NewLogger(&out, c.terminal, LogConfig{Level: "info", Format: c.format})
			if err != nil {
				t.Fatal(err)
			}
			log.Info("model loaded", zap.Int("layers", 5))
			if got := json.Valid(out.Bytes()); got != c.json {
				t.Errorf("json is %v, want %v: %s", got, c.json, out.String())
			}
			if !strings.Contains(out.String(), "model loaded") || !strings.Contains(out.String(), "layers") {
				t.Errorf("line lacks message or field: %s", out.String())
			}
		})
	}
}

func TestLoggerLevels(t *testing.T) {
	var out bytes.Buffer
	log, level, err := NewLogger(&out, false, LogConfig{Level: "warn", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud")
	if strings.Contains(out.String(), "quiet") || !strings.Contains(out.String(), "loud") {
		t.Errorf("level warn wrote %q", out.String())
	}
	level.SetLevel(zap.DebugLevel)
	if log.Debug("detail"); !strings.Contains(out.String(), "detail") {
		t.Error("the level did not change")
	}
}

func TestLoggerRefusesUnknownValues(t *testing.T) {
	for _, c := range []struct {
		config LogConfig
		want   string
	}{
		{LogConfig{Level: "loud", Format: "auto"}, `log level "loud" is unknown; use one of debug, info, warn, error`},
		{LogConfig{Level: "fatal", Format: "auto"}, `log level "fatal" is unknown; use one of debug, info, warn, error`},
		{LogConfig{Level: "info", Format: "xml"}, `log format "xml" is unknown; use one of auto, console, json`},
	} {
		if _, _, err := NewLogger(&bytes.Buffer{}, false, c.config); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.config, err, c.want)
		}
	}
}

func TestDefaultLogConfigIsAccepted(t *testing.T) {
	if _, _, err := NewLogger(&bytes.Buffer{}, true, DefaultLogConfig()); err != nil {
		t.Error(err)
	}
}
