package otlp

import (
	"crypto/rand"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir/telemetry/trace"
)

// Request is what is told of a request that has ended.
type Request struct {
	Context    trace.Context
	Name       string // of its span: "chat MODEL"
	Error      string // its code; "" is none
	Start, End time.Time
	Attributes []Attribute
	Stages     []Stage
}

// Stage is a part of a request's time.
type Stage struct {
	Name       string
	Start, End time.Time // no span where one of them is zero
	Attributes []Attribute
}

// Attribute is a key with a value: a string, a bool, an int64, a float64 or a
// list of strings.
type Attribute = *common.KeyValue

// Text is an attribute.
func Text(key, value string) Attribute {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// Int is an attribute.
func Int(key string, value int) Attribute {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(value)}}}
}

// Bool is an attribute.
func Bool(key string, value bool) Attribute {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: value}}}
}

// Seconds is an attribute.
func Seconds(key string, value time.Duration) Attribute {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: value.Seconds()}}}
}

// Texts is an attribute.
func Texts(key string, values []string) Attribute {
	list := &common.ArrayValue{}
	for _, v := range values {
		list.Values = append(list.Values, &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}})
	}
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}}
}

// appendSpans appends the request's span and, below it, one for each stage.
func (r *Request) appendSpans(dst []*spans.Span) []*spans.Span {
	c := &r.Context
	span := &spans.Span{
		TraceId: c.Trace[:], SpanId: c.Span[:], TraceState: c.State, Name: r.Name, Kind: spans.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: nanoseconds(r.Start), EndTimeUnixNano: nanoseconds(r.End), Attributes: r.Attributes,
		Status: &spans.Status{},
	}
	if c.Parent != [8]byte{} {
		span.ParentSpanId = c.Parent[:]
	}
	if r.Error != "" {
		span.Status.Code = spans.Status_STATUS_CODE_ERROR
		span.Attributes = append(span.Attributes, Text("error.type", r.Error))
	}
	dst = append(dst, span)
	for i := range r.Stages {
		s := &r.Stages[i]
		if s.Start.IsZero() || s.End.IsZero() {
			continue
		}
		id := make([]byte, 8)
		_, _ = rand.Read(id) // never fails
		dst = append(dst, &spans.Span{
			TraceId: c.Trace[:], SpanId: id, ParentSpanId: c.Span[:], Name: s.Name, Kind: spans.Span_SPAN_KIND_INTERNAL,
			StartTimeUnixNano: nanoseconds(s.Start), EndTimeUnixNano: max(nanoseconds(s.Start), nanoseconds(s.End)), Attributes: s.Attributes,
		})
	}
	return dst
}

func nanoseconds(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) } //nolint:gosec // not negative
