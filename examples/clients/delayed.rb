# Publishes a message that arrives two seconds later, and receives it.

require "bunny"

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

connection = Bunny.new(ENV.fetch("AMQP_URL", "amqp://guest:guest@localhost:5672")).start
channel = connection.create_channel
channel.confirm_select
orders = channel.exchange("orders", type: "x-delayed-message", durable: true, arguments: { "x-delayed-type" => "topic" })
arrived = Thread::Queue.new
queue = channel.queue("", exclusive: true).bind(orders, routing_key: "hello.ruby")
queue.subscribe { |_delivery, _properties, body| arrived << body }

published = now
orders.publish("Hello from Ruby",
  routing_key: "hello.ruby", headers: { "x-delay" => 2000 }, content_type: "text/plain", persistent: true)
channel.wait_for_confirms or raise "the broker has refused the message"

puts format("%s, after %.3f s", arrived.pop, now - published)
connection.close
