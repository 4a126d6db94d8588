// Package slo holds the objectives that a server is measured by, and writes
// Prometheus's rules for them: the share of bad events over several windows,
// and alerts when the error budget of 30 days burns too fast (Site Reliability
// Workbook, chapter 5).
package slo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/telemetry"
)

// Objectives say which share of the events must be good, each between 0 and 1.
type Objectives struct {
	Availability float64 // of the requests that were not refused with 4xx: no 5xx, and no error after the first byte
	FirstToken   Latency // of the first tokens
	InterToken   Latency // of the gaps between the tokens of a choice
	Streams      float64 // of the streams that their client did not leave: complete
}

// Latency is an objective for a time.
type Latency struct {
	Target time.Duration // one of the bounds of the histogram's buckets, since it counts nothing else
	Share  float64       // of the events that are to take no longer
}

// Default are objectives for interactive use of one machine.
func Default() Objectives {
	return Objectives{
		Availability: 0.999,
		FirstToken:   Latency{2500 * time.Millisecond, 0.99},
		InterToken:   Latency{200 * time.Millisecond, 0.95},
		Streams:      0.999,
	}
}

// Missed reports whether a request with this time to first token and this mean
// gap between tokens is above a target. A time of 0 was not measured.
func (o Objectives) Missed(firstToken, meanGap time.Duration) bool {
	return firstToken > o.FirstToken.Target || meanGap > o.InterToken.Target
}

// fastest is the burn rate of the first alert: above it a budget must leave
// room, or the alert could never fire.
const fastest = 14.4

// Validate reports the first objective for which no rules can be written.
func (o Objectives) Validate() error {
	for _, l := range []struct {
		name   string
		target time.Duration
		bounds []float64
	}{
		{"ttft_ms", o.FirstToken.Target, telemetry.FirstTokenBuckets()},
		{"itl_ms", o.InterToken.Target, telemetry.PerTokenBuckets()},
	} {
		if !slices.Contains(l.bounds, l.target.Seconds()) {
			return fmt.Errorf("%s is %d; it must be a bound of the histogram's buckets, one of %s",
				l.name, l.target.Milliseconds(), milliseconds(l.bounds))
		}
	}
	for _, s := range []struct {
		name  string
		share float64
	}{
		{"availability", o.Availability}, {"ttft", o.FirstToken.Share}, {"itl", o.InterToken.Share}, {"streams", o.Streams},
	} {
		if s.share >= 1 || fastest*(1-s.share) >= 1 {
			return fmt.Errorf("%s is %s; it must be above %s, since else even an hour without one good event burns its budget less than "+
				"%g times as fast as allowed and alerts no one, and below 100%%", s.name, Percent(s.share), Percent(1-1/fastest), fastest)
		}
	}
	return nil
}

// Percent writes a share as people do: 99.9%.
func Percent(share float64) string { return number(100*share) + "%" }

// number leaves out the digits that binary fractions add.
func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

func milliseconds(bounds []float64) string {
	list := make([]string, len(bounds))
	for i, b := range bounds {
		list[i] = number(1000 * b)
	}
	return strings.Join(list, ", ")
}
