package answer

// What streams of server-sent events have in common.
const (
	Done      = "data: [DONE]\n\n" // ends a stream of chunks
	Heartbeat = ": ping\n"         // a comment
	EventEnd  = "}\n\n"            // of an event whose data is an object
)
