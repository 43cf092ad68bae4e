package message

// A Destination is what a message is published to.
type Destination struct {
	Exchange string
	Queue    string // with the default exchange
}

// To returns the destination of a message.
func To(exchange, key string) Destination {
	if exchange == "" {
		return Destination{Queue: key}
	}
	return Destination{Exchange: exchange}
}
