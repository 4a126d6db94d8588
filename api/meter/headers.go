package meter

import (
	"strconv"
	"time"

	"weir/scheduler/quota"
)

// WriteRemaining calls set with the headers x-ratelimit-{limit,remaining,reset}-{requests,tokens}
// as OpenAI's clients and gateways read them, for limits that there are.
func WriteRemaining(set func(name, value string), r quota.Remaining) {
	writeWindow(set, "Requests", r.Requests)
	writeWindow(set, "Tokens", r.Tokens)
}

func writeWindow(set func(name, value string), what string, w quota.Window) {
	if w.Limit == 0 {
		return
	}
	set("X-Ratelimit-Limit-"+what, strconv.FormatInt(w.Limit, 10))
	set("X-Ratelimit-Remaining-"+what, strconv.FormatInt(w.Left, 10))
	set("X-Ratelimit-Reset-"+what, w.Reset.Round(time.Millisecond).String())
}
