<?php
// Publishes a message that arrives two seconds later, and receives it.

use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpStamp;
use Symfony\Component\Messenger\Bridge\Amqp\Transport\AmqpTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

// Composer's, or Debian's.
require is_file('vendor/autoload.php') ? 'vendor/autoload.php' : 'Symfony/Component/Messenger/Bridge/Amqp/autoload.php';
require_once __DIR__.'/DelayedSender.php';

final class Hello
{
    public function __construct(public string $text, public float $published)
    {
    }
}

$dsn = getenv('AMQP_URL') ?: 'amqp://guest:guest@localhost:5672';
$orders = (new AmqpTransportFactory())->createTransport($dsn, [
    'exchange' => ['name' => 'orders', 'type' => 'x-delayed-message', 'arguments' => ['x-delayed-type' => 'topic']],
    'queues' => ['hello.symfony.orders' => ['binding_keys' => ['hello.symfony']]],
], new PhpSerializer());
$orders->setup();

$sender = new DelayedSender($orders);
$hello = new Hello('Hello from Symfony', microtime(true));
$sender->send(new Envelope($hello, [new AmqpStamp('hello.symfony'), new DelayStamp(2000)]));

$bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Hello::class => [
    function (Hello $hello) use (&$worker) {
        printf("%s, after %.3f s\n", $hello->text, microtime(true) - $hello->published);
        $worker->stop();
    },
]]))]);
$worker = new Worker(['orders' => $orders], $bus);
$worker->run(['sleep' => 10000]);
