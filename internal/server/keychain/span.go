package keychain

import (
	"fmt"
	"strings"
	"time"

	"weir/api/tenant"
)

// EndAfter is the time after a duration such as 90d; zero for "".
func EndAfter(from time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	d, err := parseSpan(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("duration %q is not accepted; it takes one above zero such as 30m, 12h or 90d", text)
	}
	return from.Add(d), nil
}

const (
	day      = 24 * time.Hour
	mostDays = 100 * 365
)

// parseSpan reads a duration, in whole days too.
func parseSpan(text string) (time.Duration, error) {
	number, found := strings.CutSuffix(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	var days int
	if n, err := fmt.Sscanf(number+"\n", "%d\n", &days); err != nil || n != 1 || days < 0 || days > mostDays {
		return 0, fmt.Errorf("%q is not a number of days up to %d", number, mostDays)
	}
	return time.Duration(days) * day, nil
}

// State is the word for whether a key is good at a time.
func State(k *tenant.Key, now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Live(now):
		return "expired"
	}
	return "live"
}

// When is a time as lists show it.
func When(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}
