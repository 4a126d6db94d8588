package api

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// Error is a refusal or failure as a client sees it: an HTTP status and the
// error object of the OpenAI API. A nil-valued field is sent as null.
type Error struct {
	Status  int    // HTTP status
	Type    string // one of the constants below
	Code    string // stable, machine readable; "" is null
	Param   string // the field at fault; "" is null
	Message string // for people: what, which value, the way out

	Exceeded *Exceeded // of a prompt that does not fit; nil: another error

	Filtered string // the category for which a policy refused; sent as Azure's API does

	RetryAfter time.Duration // > 0: in place of the code's own, see Refusals
	NoRetry    bool          // the client should not try again by itself, whatever its code says
}

// Exceeded is a prompt that does not fit into the model's context, in tokens.
type Exceeded struct{ Prompt, Context int }

// The values of Error.Type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeServer         = "server_error"
	TypeUnavailable    = "service_unavailable_error"
	TypeRateLimit      = "rate_limit_error"
	TypeQuota          = "insufficient_quota"
)

func (e *Error) Error() string { return e.Message }

// AppendJSON appends {"error":{message,type,param,code}}.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendNullable(dst, e.Code)
	if e.Filtered != "" {
		dst = AppendString(append(dst, `,"content_filter_result":{`...), e.Filtered)
		dst = append(dst, `:{"filtered":true,"detected":true}}`...)
	}
	return append(dst, "}}"...)
}

// Write makes e the response, replacing what was set before.
func (e *Error) Write(ctx *fasthttp.RequestCtx) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType("application/json")
	e.Headers(ctx.Response.Header.Set)
	ctx.SetBody(e.AppendJSON(nil))
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return AppendString(dst, s)
}

const hexDigits = "0123456789abcdef"

// AppendComma appends a comma before element i of an array, but not before the first.
func AppendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD;
// nothing but quotes, backslashes and control characters is escaped.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = utf8.AppendRune(dst, utf8.RuneError)
			start = i + 1
		}
		i += n
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// WriteJSON makes v the response. v must be made of encodable values.
func WriteJSON(ctx *fasthttp.RequestCtx, status int, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		Refuse("internal_error", "encode response: "+err.Error()).Write(ctx)
		return
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(body.Bytes())
}
