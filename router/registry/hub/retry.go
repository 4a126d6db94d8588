package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// StatusError is an answer that is none.
type StatusError struct {
	Status     int
	Host       string
	RetryAfter time.Duration
	Text       string // the beginning of what the server says
}

func newStatusError(resp *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
	e := &StatusError{Status: resp.StatusCode, Text: strings.TrimSpace(string(text))}
	if resp.Request != nil {
		e.Host = resp.Request.URL.Host
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		e.RetryAfter = time.Duration(min(s, 3600)) * time.Second
	}
	return e
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answers %d %s", e.Host, e.Status, http.StatusText(e.Status))
	if e.Text != "" && !strings.HasPrefix(e.Text, "<") {
		text += fmt.Sprintf(" (%.200q)", e.Text)
	}
	return text
}

// retries counts the failures of a request since it last gave something.
type retries struct {
	pause time.Duration
	tries int
}

const (
	maxTries = 6
	maxPause = 60 * time.Second
)

// again waits before the next try, and reports false where a further one cannot help.
func (r *retries) again(ctx context.Context, err error) bool {
	if r.pause == 0 {
		r.pause = time.Second
	}
	status, answered := errors.AsType[*StatusError](err)
	_, disk := errors.AsType[*diskError](err)
	switch {
	case ctx.Err() != nil, disk, errors.Is(err, errChanged), errors.Is(err, ErrChecksum), errors.Is(err, ErrRange), errors.Is(err, errRedirect):
		return false
	case answered && status.Status != http.StatusTooManyRequests && status.Status != http.StatusRequestTimeout && status.Status < 500:
		return false
	}
	r.tries++
	if r.tries >= maxTries {
		return false
	}
	wait := min(r.pause<<(r.tries-1), maxPause)
	if answered && status.RetryAfter > 0 {
		wait = status.RetryAfter
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
