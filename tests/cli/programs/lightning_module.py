"""A LightningModule that logs and keeps metrics: trained, validated, used, saved and loaded."""

import tempfile

import lightning
import torch
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self, hidden=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3))
        self.right = torchmetrics.Accuracy(task="multiclass", num_classes=3)
        self.right_after = torchmetrics.Accuracy(task="multiclass", num_classes=3)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        z = self(x)
        loss = nn.functional.cross_entropy(z, y)
        self.right(z, y)
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log("right", self.right, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        z = self(x)
        self.right_after.update(z, y)
        self.log_dict(
            {"loss_after": nn.functional.cross_entropy(z, y), "right_after": self.right_after}
        )

    def predict_step(self, batch, batch_idx):
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


lightning.seed_everything(0, verbose=False)
x = torch.randn(96, 8)
y = (x.sum(1) > 0).long() + (x[:, 0] > 1).long()
data = DataLoader(TensorDataset(x, y), batch_size=16)
model = torch.compile(Classifier())
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(model, data, data)
    print({name: f"{value:.3f}" for name, value in sorted(trainer.callback_metrics.items())})
    (after,) = trainer.validate(model, data, verbose=False)
    print({name: f"{value:.3f}" for name, value in after.items()})
    print(torch.cat(trainer.predict(model, data)).bincount().tolist())
    again = Classifier.load_from_checkpoint(trainer.checkpoint_callback.best_model_path)
    print(sorted(again.state_dict()))
    print(torch.allclose(again(x), model(x), atol=1e-5))
