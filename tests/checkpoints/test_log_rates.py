"""The learning rate is known by its name, whatever tool logged it."""

from stagewise.checkpoints._log_rates import is_rate

RATES = "lr_0,train_lr,current_lr,optim.lr,learning rate,Learning Rate,learning-rate,lr_scheduler,learningRate,x/lr0"
OTHERS = "clr,color,learning_curve,rate,lr/loss,loss_lr_0.1,learning/win rate,lrs - loss,lr - accuracy,lr_0.1/f1"


def test_the_learning_rate_is_known_by_a_word_of_its_name() -> None:
    assert [name for name in RATES.split(",") if not is_rate(name)] == []
    assert [name for name in OTHERS.split(",") if is_rate(name)] == []
