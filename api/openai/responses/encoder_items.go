package responses

import (
	"strconv"

	"weir/api"
	"weir/api/openai/answer"
)

// openItem begins an item of a kind unless it is open already.
func (e *Encoder) openItem(dst []byte, kind answer.ItemKind) []byte {
	if e.open == kind {
		return dst
	}
	dst = e.closeItem(dst)
	e.open = kind
	e.items++
	e.text, e.scores = e.text[:0], e.scores[:0]
	dst = e.appendPlace(e.appendEvent(dst, "response.output_item.added"), false)
	dst = append(e.appendItem(append(dst, `,"item":`...), "in_progress", false), answer.EventEnd...)
	switch {
	case kind == answer.MessageItem:
		dst = e.appendPart(e.appendEvent(dst, "response.content_part.added"), false)
	case kind == answer.ThoughtItem && e.request.summarises():
		dst = e.appendPart(e.appendEvent(dst, "response.reasoning_summary_part.added"), false)
	case kind == answer.ThoughtItem:
		dst = e.appendPart(e.appendEvent(dst, "response.content_part.added"), false)
	}
	return dst
}

// closeItem ends the open item, if there is one.
func (e *Encoder) closeItem(dst []byte) []byte {
	switch {
	case e.open == answer.NoItem:
		return dst
	case e.open == answer.MessageItem:
		dst = e.appendIndexed(e.appendEvent(dst, "response.output_text.done"), "content_index")
		dst = api.AppendString(append(dst, `,"text":`...), e.text)
		dst = append(append(append(dst, `,"logprobs":[`...), e.scores...), "]"+answer.EventEnd...)
		dst = e.appendPart(e.appendEvent(dst, "response.content_part.done"), true)
	case e.open == answer.InputItem:
		dst = e.appendPlace(e.appendEvent(dst, "response.custom_tool_call_input.done"), true)
		dst = append(api.AppendString(append(dst, `,"input":`...), e.text), answer.EventEnd...)
	case e.open == answer.CallItem:
		dst = e.appendPlace(e.appendEvent(dst, "response.function_call_arguments.done"), true)
		dst = e.appendName(dst)
		dst = append(api.AppendString(append(dst, `,"arguments":`...), e.text), answer.EventEnd...)
	case e.request.summarises():
		dst = e.appendIndexed(e.appendEvent(dst, "response.reasoning_summary_text.done"), "summary_index")
		dst = append(api.AppendString(append(dst, `,"text":`...), e.text), answer.EventEnd...)
		dst = e.appendPart(e.appendEvent(dst, "response.reasoning_summary_part.done"), true)
	default:
		dst = e.appendIndexed(e.appendEvent(dst, "response.reasoning_text.done"), "content_index")
		dst = append(api.AppendString(append(dst, `,"text":`...), e.text), answer.EventEnd...)
		dst = e.appendPart(e.appendEvent(dst, "response.content_part.done"), true)
	}
	status := "completed"
	if e.cut {
		status = "incomplete"
	}
	from := len(e.output)
	e.output = e.appendItem(api.AppendComma(e.output, e.items-1), status, true)
	if from > 0 {
		from++ // over the comma
	}
	dst = e.appendPlace(e.appendEvent(dst, "response.output_item.done"), false)
	dst = append(append(append(dst, `,"item":`...), e.output[from:]...), answer.EventEnd...)
	e.open = answer.NoItem
	return dst
}

// appendPiece appends the event of a piece of the open item.
func (e *Encoder) appendPiece(dst, piece []byte, tokens []answer.TokenRecord) []byte {
	e.text = append(e.text, piece...)
	switch {
	case e.open == answer.InputItem:
		dst = e.appendPlace(e.appendEvent(dst, "response.custom_tool_call_input.delta"), true)
	case e.open == answer.CallItem:
		dst = e.appendPlace(e.appendEvent(dst, "response.function_call_arguments.delta"), true)
	case e.open == answer.MessageItem:
		dst = e.appendIndexed(e.appendEvent(dst, "response.output_text.delta"), "content_index")
		dst = append(dst, `,"logprobs":[`...)
		if e.job.Params.Logprobs && len(tokens) > 0 {
			if len(e.scores) > 0 {
				e.scores = append(e.scores, ',')
			}
			from := len(e.scores)
			e.scores = e.names.AppendRecords(e.scores, tokens)
			dst = append(dst, e.scores[from:]...)
		}
		dst = append(dst, ']')
	case e.request.summarises():
		dst = e.appendIndexed(e.appendEvent(dst, "response.reasoning_summary_text.delta"), "summary_index")
	default:
		dst = e.appendIndexed(e.appendEvent(dst, "response.reasoning_text.delta"), "content_index")
	}
	return append(api.AppendString(append(dst, `,"delta":`...), piece), answer.EventEnd...)
}

// appendPlace says which item an event is about: by its place in the output, and by its id
// where the event does not hold the item itself.
func (e *Encoder) appendPlace(dst []byte, named bool) []byte {
	if named {
		dst = append(e.appendItemID(append(dst, `,"item_id":"`...)), '"')
	}
	dst = append(dst, `,"output_index":`...)
	return strconv.AppendInt(dst, int64(e.items-1), 10)
}

// appendIndexed says which part of which item an event is about: an item has one.
func (e *Encoder) appendIndexed(dst []byte, index string) []byte {
	dst = append(dst, `,"item_id":"`...)
	dst = append(e.appendItemID(dst), `","output_index":`...)
	dst = strconv.AppendInt(dst, int64(e.items-1), 10)
	return append(append(append(dst, `,"`...), index...), `":0`...)
}

// appendPart ends an event about the part of the open item: with what it has, or empty.
func (e *Encoder) appendPart(dst []byte, whole bool) []byte {
	index := "content_index"
	if e.open == answer.ThoughtItem && e.request.summarises() {
		index = "summary_index"
	}
	dst = e.appendIndexed(dst, index)
	return append(e.appendContent(append(dst, `,"part":`...), whole), answer.EventEnd...)
}

func (e *Encoder) appendContent(dst []byte, whole bool) []byte {
	text, scores := e.text, e.scores
	if !whole {
		text, scores = nil, nil
	}
	switch {
	case e.open == answer.MessageItem:
		dst = api.AppendString(append(dst, `{"type":"output_text","annotations":[],"text":`...), text)
		return append(append(append(dst, `,"logprobs":[`...), scores...), "]}"...)
	case e.request.summarises():
		dst = append(dst, `{"type":"summary_text","text":`...)
	default:
		dst = append(dst, `{"type":"reasoning_text","text":`...)
	}
	return append(api.AppendString(dst, text), '}')
}

// appendItem appends the open item, with what it has or without.
func (e *Encoder) appendItem(dst []byte, status string, whole bool) []byte {
	dst = append(e.appendItemID(append(dst, `{"id":"`...)), `","type":"`...)
	switch e.open {
	case answer.MessageItem:
		dst = append(append(dst, `message","status":"`...), status...)
		dst = append(dst, `","role":"assistant","content":[`...)
		if whole {
			dst = e.appendContent(dst, true)
		}
	case answer.CallItem:
		return e.appendCallItem(append(dst, `function_call`...), status, `,"arguments":`, whole)
	case answer.InputItem:
		return e.appendCallItem(append(dst, `custom_tool_call`...), status, `,"input":`, whole)
	case answer.ThoughtItem:
		dst = append(append(dst, `reasoning","status":"`...), status...)
		switch {
		case e.request.summarises():
			dst = append(dst, `","summary":[`...)
		case !whole:
			return append(dst, `","summary":[],"content":[]}`...)
		default:
			dst = append(dst, `","summary":[],"content":[`...)
		}
		if whole {
			dst = e.appendContent(dst, true)
		}
	case answer.NoItem:
	}
	return append(dst, "]}"...)
}

// appendCallItem goes on with an item behind its type. field is what the tool is called with.
func (e *Encoder) appendCallItem(dst []byte, status, field string, whole bool) []byte {
	dst = append(append(dst, `","status":"`...), status...)
	dst = api.AppendString(append(dst, `","call_id":`...), e.call.ID)
	dst = append(e.appendName(dst), field...)
	if !whole {
		return append(dst, `""}`...)
	}
	return append(api.AppendString(dst, e.text), '}')
}

// appendName appends which tool is called: its own name, and that of its namespace where it has one.
func (e *Encoder) appendName(dst []byte) []byte {
	tool, ok := e.request.namespaced[e.call.Name]
	if !ok {
		return api.AppendString(append(dst, `,"name":`...), e.call.Name)
	}
	dst = append(append(dst, `,"name":`...), tool.name...)
	return api.AppendString(append(dst, `,"namespace":`...), tool.namespace)
}

// appendItemID appends the id of the item that was begun last: that of the response, and
// the item's number.
func (e *Encoder) appendItemID(dst []byte) []byte {
	dst = append(append(dst, itemPrefixes[e.open]...), e.ids...)
	return strconv.AppendInt(append(dst, '_'), int64(e.items-1), 10)
}
