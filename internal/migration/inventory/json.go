package inventory

import "github.com/delayer-go/delayer/internal/management"

// apiExchange is an exchange as the API shows it.
type apiExchange struct {
	Name       string               `json:"name"`
	Type       string               `json:"type"`
	Durable    bool                 `json:"durable"`
	AutoDelete bool                 `json:"auto_delete"`
	Internal   bool                 `json:"internal"`
	Arguments  management.Arguments `json:"arguments"`
	Policy     string               `json:"policy"`
	Pending    *int64               `json:"messages_delayed"` // of the node that answers
	Stats      struct {
		In struct {
			Rate float64 `json:"rate"`
		} `json:"publish_in_details"`
	} `json:"message_stats"`
}

func (x apiExchange) exchange() Exchange {
	return Exchange{
		Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
		Arguments: x.Arguments.Table(), Policy: x.Policy,
	}
}

// apiBinding is a binding as the API shows it.
type apiBinding struct {
	Source    string               `json:"source"`
	Target    string               `json:"destination"`
	Kind      string               `json:"destination_type"`
	Key       string               `json:"routing_key"`
	Arguments management.Arguments `json:"arguments"`
}

func (b apiBinding) binding() Binding {
	return Binding{Source: b.Source, Target: b.Target, ToExchange: b.Kind == "exchange", Key: b.Key, Arguments: b.Arguments.Table()}
}
