<?php
// Publishes a message that arrives two seconds later, and receives it.

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

// Composer's, or Debian's.
require is_file('vendor/autoload.php') ? 'vendor/autoload.php' : 'PhpAmqpLib/autoload.php';

$url = parse_url(getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672');
$vhost = urldecode(substr($url['path'] ?? '', 1)) ?: '/';
$port = $url['port'] ?? 5672;
$connection = new AMQPStreamConnection($url['host'], $port, $url['user'], $url['pass'], $vhost);
$channel = $connection->channel();
$channel->exchange_declare('orders', 'x-delayed-message', false, true, false, false, false, new AMQPTable([
    'x-delayed-type' => 'topic',
]));
[$queue] = $channel->queue_declare('', false, false, true);
$channel->queue_bind($queue, 'orders', 'hello.php');

$channel->confirm_select();
$channel->set_nack_handler(function () {
    throw new RuntimeException('the broker has refused the message');
});
$published = microtime(true);
$channel->basic_publish(new AMQPMessage('Hello from PHP', [
    'application_headers' => new AMQPTable(['x-delay' => 2000]),
    'content_type' => 'text/plain',
    'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
]), 'orders', 'hello.php');
$channel->wait_for_pending_acks(); // the broker has stored the message

$received = function (AMQPMessage $message) use ($published) {
    printf("%s, after %.3f s\n", $message->body, microtime(true) - $published);
};
$channel->basic_consume($queue, '', false, true, false, false, $received);
$channel->wait();
$connection->close();
