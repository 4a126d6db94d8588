package folder

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync"

	"weir/internal/console"
)

// reach tells a person at once that a server is not reached, since what sends the requests tries for half a minute.
type reach struct {
	next http.RoundTripper // nil: the default
	errs io.Writer
	once sync.Once
}

func (r *reach) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := cmp.Or(r.next, http.DefaultTransport).RoundTrip(req)
	if err != nil && req.Context().Err() == nil {
		r.once.Do(func() {
			fmt.Fprintf(r.errs, "weir: %s is not reached: %s; trying again for half a minute (Ctrl-C ends it)\n",
				console.Printable(req.URL.Host), console.Printable(err.Error()))
		})
	}
	return res, err
}
