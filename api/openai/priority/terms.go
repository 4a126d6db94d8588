// Package priority says when a request is served: its class, among OpenAI's service tiers and vLLM's priorities, and its deadlines.
//
//	terms, fault := priority.Reader{Header: header, Arrived: arrived}.Read(o, tenant)
//	// terms.Class, terms.DoneBy
package priority

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/tenant"
	"weir/internal/inference"
)

// Terms are when a request is served: its class, and the times after which its
// answer is not needed. A tenant's caps bound both.
type Terms struct {
	Class inference.Class
	Tier  string // service_tier of the answer; "" where the request has none

	FirstTokenBy, DoneBy time.Time // deadlines; zero is none
	WaitUntil            time.Time // the end of waiting; zero leaves it to the engine
}

// Header names a class and overrides the body's fields, so that a proxy in front
// may decide.
const Header = "X-Weir-Class"

// Reader reads the terms of one request.
type Reader struct {
	Header         *fasthttp.RequestHeader
	Arrived        time.Time
	ClientTimeouts bool // what clients say of how long they wait is a deadline, see edge.ClientTimeout
}

// Read reads the terms of a request whose fields are this server's to check.
func (r Reader) Read(o *jsonbody.Object, t *tenant.Tenant) (Terms, *api.Error) {
	var fault *api.Error
	got := r.ReadDeadlines(o, t, &fault)
	asked, named := r.ReadClass(o, t, &got, &fault)
	got.Class = max(asked, t.HighestClass)
	if named != "" && got.Class != asked {
		if o.Notes.Strict {
			jsonbody.Keep(&fault, api.RefuseParam("invalid_value", "", "%s asks for class %s; the tenant's highest is %s",
				named, asked, got.Class))
		}
		o.Notes.Add("%s lowered to class %s, the highest of the tenant", named, got.Class)
	}
	if got.Tier != "" {
		got.Tier = tierOf[got.Class]
	}
	return got, fault
}

// ReadClass finds the class that a request asks for, and the field or header that
// says so: x-weir-class before service_tier before priority. Where none does, it is
// the tenant's default.
func (r Reader) ReadClass(o *jsonbody.Object, t *tenant.Tenant, got *Terms, fault **api.Error) (class inference.Class, named string) {
	class = t.Class
	if n, ok := o.Integer("priority", -1<<63, 1<<63-1, fault); ok && n != 0 {
		class, named = ofPriority(n), "priority"
	}
	if tier, ok := o.Text("service_tier", fault); ok {
		got.Tier = tier
		switch k, known := tiers[tier]; {
		case known:
			class, named = k, "service_tier"
		case tier != autoTier:
			o.Ignored("service_tier", api.RefuseParam("invalid_value", "service_tier",
				"service_tier is %s; it must be auto, default, flex, priority, fast, scale or batch", jsonbody.HeaderQuote(tier)), fault)
		}
	}
	if word := r.text(Header); word != "" {
		k, known := tenant.ParseClass(word)
		if !known {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "", "the header x-weir-class is %s; it must be %s",
				jsonbody.HeaderQuote(word), strings.Join(tenant.ClassNames(), ", ")))
		}
		class, named = k, "x-weir-class"
	}
	return class, named
}

// ofPriority reads vLLM's priority, of which lower values are served earlier.
func ofPriority(n int64) inference.Class {
	switch {
	case n < 0:
		return inference.Interactive
	case n > 0:
		return inference.Batch
	}
	return inference.Default
}

// autoTier leaves the class to the tenant's settings.
const autoTier = "auto"

// tiers are OpenAI's words for a service tier that name a class, and batch.
var tiers = map[string]inference.Class{
	"priority": inference.Interactive, "fast": inference.Interactive, "scale": inference.Interactive,
	"default": inference.Default,
	"flex":    inference.Batch, "batch": inference.Batch,
}

// tierOf is the tier that an answer says it was served with.
var tierOf = [inference.NumClasses]string{inference.Interactive: "priority", inference.Default: "default", inference.Batch: "flex"}

// The headers that bring deadlines beside the fields ttft_deadline_ms and deadline_ms,
// all in milliseconds from the request's arrival. The second one is llm-d's.
var (
	firstTokenHeaders = []string{"X-Weir-Ttft-Ms", "X-Llm-D-Slo-Ttft-Ms"}
	doneHeaders       = []string{"X-Weir-Deadline-Ms"}
)

// OwnFields are this server's alone: no upstream gets them.
var OwnFields = []string{"ttft_deadline_ms", "deadline_ms"}

// ReadDeadlines reads what a request says about its deadlines. The soonest of
// several counts, and so does the tenant's cap.
func (r Reader) ReadDeadlines(o *jsonbody.Object, t *tenant.Tenant, fault **api.Error) Terms {
	most := edge.MaxDeadline.Milliseconds()
	first, _ := o.Integer("ttft_deadline_ms", 1, most, fault)
	done, _ := o.Integer("deadline_ms", 1, most, fault)
	toFirst, toDone := t.FirstTokenTimeout, t.TotalTimeout
	if r.ClientTimeouts {
		var ignored *api.Error // the reader of the field reports it
		if waits := edge.ClientTimeout(r.Header); o.Flag("stream", false, &ignored) {
			toFirst = edge.Sooner(toFirst, waits) // libraries wait so long for each event
		} else {
			toDone = edge.Sooner(toDone, waits)
		}
	}
	return Terms{
		FirstTokenBy: r.deadline(first, firstTokenHeaders, toFirst, fault),
		DoneBy:       r.deadline(done, doneHeaders, toDone, fault),
		WaitUntil:    r.After(t.QueueTimeout),
	}
}

// deadline is the soonest of a field's, 0 for none, those of headers and the cap.
func (r Reader) deadline(field int64, names []string, most time.Duration, fault **api.Error) time.Time {
	most = edge.Sooner(most, time.Duration(field)*time.Millisecond)
	for _, name := range names {
		text := r.text(name)
		if text == "" {
			continue
		}
		d, ok := edge.ParseMilliseconds(text)
		if !ok {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "", "the header %s is %s; it must be a number of milliseconds above 0 and at most %d",
				strings.ToLower(name), jsonbody.HeaderQuote(text), edge.MaxDeadline.Milliseconds()))
		}
		most = edge.Sooner(most, d)
	}
	return r.After(most)
}

// text is a header's value, without blanks around it.
func (r Reader) text(name string) string {
	return strings.TrimSpace(string(r.Header.Peek(name)))
}

// After is so long after the request's arrival; of 0 it is the zero time.
func (r Reader) After(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return r.Arrived.Add(d)
}
