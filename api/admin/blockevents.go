package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"weir/api"
	"weir/internal/inference"
	"weir/router"
)

// BlockEventsFunc is what changed in the prefix cache of a model after a number of an epoch. It waits for
// news until ctx ends. The error wraps ErrNoModel where no such model is in memory here, and
// inference.ErrUnavailable where its engine tells nothing.
type BlockEventsFunc func(ctx context.Context, model string, epoch, after uint64) (*router.BlockEvents, error)

// longestNews is how long a reader may wait for news.
const longestNews = time.Minute

// blockEvents answers routers: ?model=NAME&epoch=E&after=N are what the reader has, wait=20s is how long it
// waits where nothing is new.
func (c Config) blockEvents(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	number := func(name string) (n uint64) {
		if text := q.Get(name); text != "" {
			n, _ = strconv.ParseUint(text, 10, 64) // 0, which any text that is no number becomes, asks for everything
		}
		return n
	}
	wait, err := time.ParseDuration(q.Get("wait"))
	if err != nil || wait < 0 {
		wait = 0
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(wait, longestNews))
	defer cancel()
	found, err := c.BlockEvents(ctx, q.Get("model"), number("epoch"), number("after"))
	switch {
	case errors.Is(err, ErrNoModel):
		e := api.Refuse("model_not_found", err.Error())
		e.Param = "model"
		refuse(w, e)
	case errors.Is(err, inference.ErrUnavailable):
		refuse(w, api.Refuse("kv_events_unavailable", err.Error()+"; set --prefix-cache-key to the same secret for all replicas and routers"))
	case err != nil:
		refuse(w, api.Refuse("kv_events_unavailable", err.Error()))
	default:
		write(w, http.StatusOK, found)
	}
}
